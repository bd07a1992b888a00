"""Label maps and images in PNG and BMP files, read with PIL as nnU-Net reads them."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.itk import itk_image

#: The endings of formats that store no position in space, whatever libraries make of their tags.
PICTURE_ENDINGS = (".png", ".bmp")

#: A part of PIL's name for colours of 16 bits each in a PNG file, of which it keeps 8.
_DEEP = ";16B"


def read_picture(path: Path) -> npt.NDArray[Any]:
    """Read a plane from a PNG or BMP file.

    ITK would shift grey values to the right where a PNG file says that fewer of their bits count
    (sBIT), and would fill up what a BMP file lacks with whatever is in memory. It reads colours of
    16 bits alone, which PIL would cut off.

    Source: NaturalImage2DIO in nnU-Net 2.8.1, which reads with scikit-image, and that with PIL.

    Args:
        path: The file.

    Returns:
        The values (1, y, x); ones and zeros of a picture with a bit per pixel. Colours, among them
        those of a palette, have a fourth axis.

    Raises:
        ValueError: If it cannot be read. The message does not name it.
    """
    values = _read_with_pil(path)
    if values is None:
        import SimpleITK

        values = SimpleITK.GetArrayFromImage(itk_image(path))
    return values[np.newaxis]


def _read_with_pil(path: Path) -> npt.NDArray[Any] | None:
    """The values (y, x) of a picture, or (y, x, colours); None where ITK reads it better."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            # PIL warns of large pictures.
            warnings.simplefilter("ignore")
            with Image.open(path, formats=("PNG", "BMP")) as picture:
                is_deep = _DEEP in str(picture.tile)
                picture.load()
                if is_deep and len(picture.getbands()) > 1:
                    return None
                shown = picture.convert("RGB") if picture.mode == "P" else picture
                values: npt.NDArray[Any] = np.asarray(shown)
    except MemoryError:
        raise
    except Image.DecompressionBombError:
        # ITK knows no limit.
        return None
    except UnidentifiedImageError as error:
        raise ValueError("it is no PNG or BMP file") from error
    except Exception as error:  # whatever PIL meets in a damaged file
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"PIL cannot read it ({reason})") from error
    return values.astype(np.uint8) if values.dtype == np.bool_ else values
