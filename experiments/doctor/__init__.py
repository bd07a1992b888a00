"""Whether the rules of `nnunet-dro doctor` say of this repository's trainings what came out of them."""
