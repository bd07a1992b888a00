"""A page that shows the worst cases in three planes and a rendering, offline, with NiiVue."""

from nnunet_dro.viewer.page import PAGE, Viewer, viewer_page
from nnunet_dro.viewer.volumes import MOST_MB

__all__ = ["MOST_MB", "PAGE", "Viewer", "viewer_page"]
