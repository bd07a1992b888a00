from experiments.record import QUICK_RESULTS, RESULTS, module_command, result_folder


def test_result_folder_keeps_smoke_runs_out_of_the_documentation(tmp_path):
    assert result_folder(None, quick=False) == RESULTS
    assert result_folder(None, quick=True) == QUICK_RESULTS != RESULTS
    assert result_folder(tmp_path, quick=True) == tmp_path


def test_module_command_quotes_for_the_shell():
    assert module_command("a.b", ["--out", "my folder"]) == "python -m a.b --out 'my folder'"
