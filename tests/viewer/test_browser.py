import base64
import io

import numpy as np
import pytest
from PIL import Image

from tests.commands import done
from tests.evaluation.made_folders import run_evaluate
from tests.pages.browser import Page, open_file

from .made import ball, evaluated, report, write
from .test_page import HOSTILE

#: Red, green and blue of what is only in the reference, and only in the prediction.
BLUE = (86, 180, 233)
ORANGE = (245, 166, 35)

#: The case and the label that are drawn.
SHOWN = "return document.getElementById('stage').dataset.shown || ''"


class Viewer(Page):
    """The page of cases in a browser."""

    def wait(self, shown=None):
        """Until a case is drawn: the first one, or the one that is named."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 600).until(
            lambda _: self.run(SHOWN) and shown in (None, self.run(SHOWN))
        )
        self.driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )
        return self

    def press(self, key, selector="body"):
        self.one(selector).send_keys(key)
        return self

    def choose(self, control, value):
        change = "const c = document.getElementById(arguments[0]); c.value = arguments[1]"
        self.run(f"{change}; c.dispatchEvent(new Event('change'))", control, value)

    def drawn(self, tile):
        """The pixels of a tile, shape (rows, columns, 3)."""
        place = self.run(
            "return document.getElementById(arguments[0]).getBoundingClientRect().toJSON()", tile
        )
        clip = {
            "x": place["x"],
            "y": place["y"],
            "width": place["width"],
            "height": place["height"],
            "scale": 1,
        }
        shot = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"format": "png", "clip": clip}
        )
        return np.asarray(
            Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
        ).astype(int)

    def n_coloured(self, tile, colour):
        """The pixels of a tile that have a colour, and little else."""
        return int((np.abs(self.drawn(tile) - colour).max(axis=-1) < 40).sum())

    @property
    def title(self):
        return self.text("#about b")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a report with a page of four cases."""
    out = evaluated(tmp_path_factory.mktemp("study"), shifts=(0, 2, 4, 6), n_channels=2)
    done(report(out.parent, "--viewer"))
    return out


@pytest.fixture(scope="module")
def page(gl_driver, made):
    """A page that is open at a case and a label, as after a click in the report."""
    return opened(gl_driver, made, "#case=case_01&label=tumour")


def opened(driver, folder, fragment="", **options):
    page = open_file(driver, folder / "cases.html", fragment=fragment, **options)
    return Viewer(page.driver, page.url)


def test_an_address_opens_its_case_in_planes_and_rendering(page):
    page.wait("case_01\ntumour")
    assert page.run("return document.getElementById('label').value") == "tumour"

    # A link to another case, in a page that is open.
    page.run("location.hash = '#case=case_03&label=organ'")
    page.wait("case_03\norgan")

    assert page.title == "case_03"

    planes = page.drawn("planes")
    rendering = page.drawn("rendering")

    # Noise in many grey levels, and both outlines.
    assert len(np.unique(planes[(np.ptp(planes, axis=-1) == 0)])) > 100
    assert page.n_coloured("planes", BLUE) > 100
    assert page.n_coloured("planes", ORANGE) > 50
    assert len(np.unique(rendering.reshape(-1, 3), axis=0)) > 100

    page.check()


def test_keys_step_through_the_cases(page):
    steps = page.wait().run("return JSON.parse(document.getElementById('data').textContent).steps")
    first = f"{steps[0]['case']}\n{steps[0]['label']}"
    page.choose("step", "0")
    page.wait(first)
    before = page.drawn("planes")

    page.press("n").wait(f"{steps[1]['case']}\n{steps[1]['label']}")

    assert page.title == steps[1]["case"]
    assert (page.drawn("planes") != before).any()
    assert page.run("return location.hash") == f"#case={steps[1]['case']}&label={steps[1]['label']}"

    page.press("p").wait(first)
    assert (page.drawn("planes") == before).all()
    assert not page.one("#previous").is_enabled()

    page.press("p")
    assert page.wait().run(SHOWN) == first


def test_keys_change_what_is_drawn(page):
    bluish = np.array([-1, 0, 1])
    outlined = (page.wait().drawn("planes") @ bluish > 40).sum()

    page.press("o")

    assert page.run("return document.getElementById('overlay').value") == "areas"
    assert (page.drawn("planes") @ bluish > 40).sum() > 3 * outlined

    page.press("o")
    assert (np.ptp(page.drawn("planes"), axis=-1) == 0).all()

    page.press("o").press("c")
    assert (
        page.run("return document.getElementById('channel').selectedOptions[0].textContent")
        == "FLAIR"
    )

    page.press("c").press("s").wait()
    assert page.run("return document.getElementById('rendered').value") == "reference"

    page.press("s").press("s").press("v").press("v")
    assert page.run("return document.getElementById('view').value") == "axial"
    assert not page.one("#rendering").is_displayed()

    for _ in range(4):
        page.press("v")
    assert page.one("#rendering").is_displayed()
    assert page.errors() == []


def test_planes_and_rendering_move_by_keyboard(page):
    page.wait()
    for tile, key in (("planes", "\ue014"), ("rendering", "\ue013")):  # arrows to the right and up
        canvas = f"#{tile} canvas"
        before = page.press("x", canvas).drawn(tile)  # in focus now
        assert (page.press(key, canvas).drawn(tile) != before).any()
        assert (page.press("r", canvas).drawn(tile) == before).all()

    far = page.drawn("planes")

    assert (page.press("+").drawn("planes") != far).any()
    assert (page.press("r").drawn("planes") == far).all()


def test_a_stratum_limits_the_steps(page):
    page.wait().choose("stratum", "site: A")
    page.wait("case_02\norgan")

    names = page.run("return [...document.getElementById('step').options].map(o => o.textContent)")

    assert all("case_02" in name or "case_00" in name for name in names)

    page.choose("stratum", "site: B")
    page.wait("case_03\norgan")


def test_controls_are_labelled_and_fit_a_telephone(page):
    page.wait()
    unnamed = page.run(
        "return [...document.querySelectorAll('#viewer button, #viewer select, #viewer input, canvas')].filter("
        "e => !(e.labels && e.labels.length) && !e.textContent.trim() && !e.getAttribute('aria-label')).length"
    )

    assert unnamed == 0

    page.resize(390, 800)
    assert page.run("return document.documentElement.scrollWidth") <= 390

    page.resize(1200)


@pytest.mark.parametrize(
    "direction",
    [
        (1, 0, 0, 0, 1, 0, 0, 0, 1),
        (0, -1, 0, -1, 0, 0, 0, 0, 1),
        (0.6, 0, 0.8, 0, 1, 0, -0.8, 0, 0.6),
    ],
    ids=["upright", "turned", "oblique"],
)
def test_a_case_opens_at_its_largest_disagreement(gl_driver, tmp_path, direction):
    reference = ball((15, 18, 20), 9).astype(np.uint8)
    prediction = reference.copy()
    prediction[14, 12, 20] = 0
    spacing = (1.0, 1.0, 2.0)
    origin = (5.0, -70.0, 110.0)
    for folder, values in (("reference", reference), ("prediction", prediction)):
        write(
            tmp_path / folder / "case.nii.gz",
            values,
            spacing=spacing,
            origin=origin,
            direction=direction,
        )
    image = (100 * reference).astype(np.int16)
    path = tmp_path / "images" / "case_0000.nii.gz"
    write(path, image, spacing=spacing, origin=origin, direction=direction)
    done(run_evaluate(tmp_path))
    done(report(tmp_path, "--viewer"))

    page = opened(gl_driver, tmp_path / "out").wait()
    page.press("r")

    # The voxel (x, y, z) = (20, 12, 14); the position has its left and its back reversed.
    turned = np.reshape(direction, (3, 3)) * spacing @ (20, 12, 14)
    left, back, up = turned + origin
    places = [f"{mm:.1f}".replace("-", "−") for mm in (-left, -back, up)]
    assert page.text("#position") == "right {} mm, anterior {} mm, superior {} mm".format(*places)


def test_pictures_are_shown_in_their_one_plane_whatever_their_names(gl_driver, tmp_path):
    out = evaluated(tmp_path, shifts=(4, 2), names=HOSTILE[:2], shape=(50, 80), ending=".png")
    assert report(tmp_path, "--viewer").exit_code == 0

    page = opened(gl_driver, out, prefers_color_scheme="dark").wait()

    assert page.title in HOSTILE
    assert not page.one("#rendering").is_displayed()
    assert not any(page.one(control).is_displayed() for control in ("#view", "#rendered"))
    assert "3-D" not in page.text("main")
    assert "rendering" not in page.text("main")

    # The prediction was moved to the right: what only it has lies to the right of what only the
    # reference has.
    page.press("o")
    drawn = page.drawn("planes")
    reds, blues = (
        np.argwhere(drawn[..., a] > drawn[..., b] + 40)[:, 1].mean() for a, b in ((0, 2), (2, 0))
    )

    assert reds > blues

    page.check()


def test_without_webgl2_the_page_says_so_and_leads_to_the_slices(gl_driver, made):
    source = "HTMLCanvasElement.prototype.getContext = () => null"
    script = gl_driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})

    try:
        page = opened(gl_driver, made)
    finally:
        gl_driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)

    assert page.text("#unsupported").startswith(
        "The viewer needs WebGL2, which this browser does not offer. "
    )
    assert page.one("#unsupported a").get_attribute("href").endswith("/report.html#pictures")
    assert not page.one("#viewer").is_displayed()
    assert 'id="pictures"' in (made / "report.html").read_text()
    assert page.errors() == []
