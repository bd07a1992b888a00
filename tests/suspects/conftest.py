from tests.pages.browser import driver, open_page

__all__ = ["driver", "open_page"]
