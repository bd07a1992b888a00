from rich.console import Console

from experiments.record import OfSeed
from experiments.record.side_by_side import Piece, side_by_side


def test_data_are_read_once_for_all_runs_of_a_seed():
    read = []

    def data_of(seed):
        read.append(seed)
        return [seed]

    of_seed, other = OfSeed(data_of), OfSeed(lambda seed: -seed)
    assert [of_seed(seed) for seed in (0, 0, 1, 1, 0)] == [[0], [0], [1], [1], [0]]
    assert read == [0, 1, 0]
    assert other(0) == 0
    assert of_seed(0) == [0]


def test_data_are_read_once_in_each_of_several_processes(tmp_path):
    def data_of(seed):
        with (tmp_path / "read").open("a") as file:
            file.write("x")
        return seed

    of_seed = OfSeed(data_of)
    runs = {f"run {number}": Piece(lambda progress: of_seed(3), 1) for number in range(6)}
    assert set(dict(side_by_side(runs, jobs=2, console=Console(quiet=True))).values()) == {3}
    assert 1 <= len((tmp_path / "read").read_text()) <= 2
