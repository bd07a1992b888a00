"""Grey images as small pictures inside a page."""

import base64
import io

import numpy as np
import numpy.typing as npt

#: Longest side of a picture in pixels, and its bytes: a page with 60 cases in three planes stays below 5 MB.
_LONGEST, _MOST_BYTES = 288, 16_000

#: Qualities of WebP to try until a picture is small enough; only noise needs the last ones.
_QUALITIES = (80, 60, 40, 20, 5)

#: Percentiles of the image that become black and white.
_WINDOW = (0.5, 99.5)


def grey_levels(image: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The values of an image from 0 (black) to 1 (white), but for the darkest and brightest few."""
    step = max(1, image.size // 2_000_000)
    low, high = np.percentile(image.ravel()[::step], _WINDOW)
    return np.asarray(np.clip((image - low) / max(float(high - low), 1e-9), 0, 1))


def data_uri(grey: npt.NDArray[np.float64], *, longest: int = _LONGEST, most_bytes: int = _MOST_BYTES) -> str:
    """A grey image as WebP in a data URI.

    Args:
        grey: Shape (rows, columns), 0 (black) to 1 (white).
        longest: Its longest side, pixels; a larger image is made smaller.
        most_bytes: Its size in bytes, for which quality is given up down to a limit.
    """
    from PIL import Image

    picture = Image.fromarray(np.rint(grey * 255).astype(np.uint8))
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    encoded = b""
    for quality in _QUALITIES:
        buffer = io.BytesIO()
        picture.save(buffer, "WEBP", quality=quality, method=4)
        encoded = buffer.getvalue()
        if len(encoded) <= most_bytes:
            break
    return "data:image/webp;base64," + base64.b64encode(encoded).decode("ascii")
