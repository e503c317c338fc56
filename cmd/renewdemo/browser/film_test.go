// The moving picture of the README: a GIF of the page while the store hangs.

package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	filmWidth  = 768
	filmColors = 64                     // most of a page has few
	filmSize   = 500_000                // bytes, at most
	frameTime  = 125 * time.Millisecond // between two frames, if the browser is fast enough
)

// TestTheMovingPicture films a store that hangs, as far as the verdict and the lanes, if PAGE_SCREENSHOTS is set.
func TestTheMovingPicture(t *testing.T) {
	folder := os.Getenv("PAGE_SCREENSHOTS")
	if folder == "" {
		t.Skip("PAGE_SCREENSHOTS names no folder")
	}
	b := open(t, demo(t, true, "-ttl", "3s"), filmWidth)
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme, "no-preference")
		b.recovered("2,000")
		b.do(chromedp.MouseEvent(chromedp.MouseMoved, 1, 1)) // off the buttons
		var f film
		hung := time.Now()
		b.click("hang")
		for told := false; !told; {
			require.Less(t, time.Since(hung), patience)
			told = regexp.MustCompile(`^The store hangs.* told, each at least .* The rival got the watched lock`).MatchString(b.text("verdict"))
			b.frame(&f)
		}
		for still := time.Now(); time.Since(still) < time.Second; {
			b.frame(&f)
		}
		b.click("hang")
		for still := time.Now(); time.Since(still) < 2*time.Second; {
			b.frame(&f)
		}
		data := f.encode(t)
		assert.Less(t, len(data), filmSize)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "hang-"+scheme+".gif"), data, 0o644))
	}
}

// film is what a visitor has seen.
type film struct {
	pictures [][]byte // PNG
	at       []time.Time
}

// frame adds the part of the page from the verdict to the end of the lanes.
func (b *tab) frame(f *film) {
	b.t.Helper()
	if n := len(f.at); n > 0 {
		<-time.After(time.Until(f.at[n-1].Add(frameTime)))
	}
	beyond := true
	area := value[page.Viewport](b, `(() => { const top = document.querySelector("#verdict").getBoundingClientRect().top + scrollY - 12;
		return {x: 0, y: top, width: innerWidth, height: document.querySelector(".lane").getBoundingClientRect().bottom + scrollY + 12 - top, scale: 1} })()`)
	f.at = append(f.at, time.Now())
	picture := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &area, CaptureBeyondViewport: &beyond})
	f.pictures = append(f.pictures, picture.Data)
}

// encode returns the film as a GIF that is repeated. Its frames have only what has changed.
func (f *film) encode(t *testing.T) []byte {
	t.Helper()
	var frames []image.Image
	var bounds image.Rectangle // of all: the verdict may get longer
	for _, picture := range f.pictures {
		frame, err := png.Decode(bytes.NewReader(picture))
		require.NoError(t, err)
		frames, bounds = append(frames, frame), bounds.Union(frame.Bounds())
	}
	palette := paletteOf(frames)
	nearest := map[color.Color]uint8{}
	var film gif.GIF
	shown := make([]uint8, bounds.Dx()*bounds.Dy()) // what the frames so far show; 0 is transparent
	for i, frame := range frames {
		whole, changed := image.NewPaletted(bounds, palette), image.Rectangle{}
		for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
			for x := bounds.Min.X; x < bounds.Max.X; x++ {
				c := frame.At(x, min(y, frame.Bounds().Max.Y-1))
				index, known := nearest[c]
				if !known {
					index = uint8(1 + palette[1:].Index(c))
					nearest[c] = index
				}
				if pixel := whole.PixOffset(x, y); shown[pixel] != index {
					shown[pixel], whole.Pix[pixel] = index, index
					changed = changed.Union(image.Rect(x, y, x+1, y+1))
				}
			}
		}
		if changed.Empty() {
			changed = image.Rect(bounds.Min.X, bounds.Min.Y, bounds.Min.X+1, bounds.Min.Y+1)
		}
		pause := 3 * time.Second // after the last frame
		if i+1 < len(f.at) {
			pause = f.at[i+1].Sub(f.at[i])
		}
		film.Image = append(film.Image, whole.SubImage(changed).(*image.Paletted))
		film.Delay = append(film.Delay, int(pause/(10*time.Millisecond)))
		film.Disposal = append(film.Disposal, gif.DisposalNone)
	}
	film.Config = image.Config{ColorModel: palette, Width: bounds.Dx(), Height: bounds.Dy()}
	var out bytes.Buffer
	require.NoError(t, gif.EncodeAll(&out, &film))
	return out.Bytes()
}

// paletteOf returns the most frequent colours, after one that is transparent.
func paletteOf(frames []image.Image) color.Palette {
	count := map[color.Color]int{}
	for _, frame := range frames {
		for y := range frame.Bounds().Dy() {
			for x := range frame.Bounds().Dx() {
				count[frame.At(x, y)]++
			}
		}
	}
	frequent := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	return append(color.Palette{color.Transparent}, frequent[:min(len(frequent), filmColors-1)]...)
}
