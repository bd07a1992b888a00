from experiments.record import QUICK_RESULTS, RESULTS, module_command, result_folder


def test_result_folder_keeps_smoke_runs_out_of_the_documentation(tmp_path):
    assert result_folder(None, quick=False) == RESULTS
    assert result_folder(None, quick=True) == QUICK_RESULTS != RESULTS
    assert result_folder(tmp_path, quick=True) == tmp_path


def test_module_command_quotes_for_the_shell():
    assert module_command("a.b", ["--out", "my folder"]) == "python -m a.b --out 'my folder'"


def test_the_command_of_a_record_makes_all_its_seeds():
    given = ["long", "--seeds", "3", "4", "--work", "w", "--add", "--jobs", "1"]
    command = module_command("a.b", given, seeds=[0, 1, 2, 3, 4])
    assert command == "python -m a.b long --work w --jobs 1 --seeds 0 1 2 3 4"
    assert module_command("a.b", ["--seeds", "3"], seeds=[3]) == "python -m a.b --seeds 3"
