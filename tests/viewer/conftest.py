from tests.pages.browser import driver, gl_driver

__all__ = ["driver", "gl_driver"]
