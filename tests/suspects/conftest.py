from tests.evaluation.report.conftest import driver, open_page

__all__ = ["driver", "open_page"]
