package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
)

// site serves the folder that PAGE_SITE names, which make site builds, and returns its address.
func site(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("PAGE_SITE")
	if folder == "" {
		t.Skip("no PAGE_SITE")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(server.Close)
	return server.URL
}

// TestTheSiteFindsAWord types what a visitor looks for. The first result is the section of a guide that answers it.
func TestTheSiteFindsAWord(t *testing.T) {
	t.Parallel()
	address := site(t)
	b := newTab(t, 1280)
	for words, section := range map[string]string{
		"shutdown":     "/docs/GUIDE.html#shut-down",
		"who holds":    "/docs/OPERATIONS.html#see-who-holds-a-lock-and-break-it",
		"cost":         "/docs/OPERATIONS.html#what-it-costs",
		"Redisson":     "/docs/MIGRATION.html#redisson",
		"fencing":      "/docs/GUIDE.html#fencing-tokens",
		"WithDeadline": "/api/schedule.html#WithDeadline", // no guide has this word
	} {
		b.do(chromedp.Navigate(address + "/index.html"))
		search := chromedp.CSS("[data-md-component=search-query]")
		b.do(chromedp.WaitVisible(search), chromedp.Click(search), chromedp.SendKeys(search, words))
		var found []string
		assert.Eventually(t, func() bool {
			found = value[[]string](b, `[...document.querySelectorAll(".md-search-result__item a")].map(a => new URL(a.href)).map(u => u.pathname + u.hash)`)
			return len(found) > 1 && found[1] == section // after its page
		}, patience, poll, "%s: %q", words, &found)
	}
	b.clean(address)
}

// TestTheSiteIsReadable opens pages in the colours that the visitor prefers, which change between visits.
func TestTheSiteIsReadable(t *testing.T) {
	t.Parallel()
	address := site(t)
	for _, width := range []int{1280, 360} {
		b := newTab(t, width)
		for _, page := range []string{"/index.html", "/docs/GUIDE.html", "/api/lock.html", "/api/contrib-plugin-prometheus.html"} {
			b.prefer("light", "no-preference")
			b.do(chromedp.Navigate(address + page))
			for _, scheme := range []string{"light", "dark"} {
				b.prefer(scheme, "no-preference")
				ground := value[int](b, `+getComputedStyle(document.body).backgroundColor.match(/\d+/)[0]`) // the red in rgb()
				assert.Equal(t, scheme == "dark", ground < 128, "%s in %s colours", page, scheme)
				b.contrasts(page+" in "+scheme, width, "color-contrast", "link-in-text-block") // the theme breaks other rules
			}
			assert.LessOrEqual(t, value[int](b, `document.documentElement.scrollWidth`), width, page)
			const code = `[...document.querySelectorAll("pre > code")]`
			if width == 1280 {
				long := value[int](b, code+`.filter(e => e.scrollWidth > e.clientWidth).length`)
				assert.LessOrEqual(t, long, value[int](b, code+`.length`)/10, "blocks of code in %s that do not fit", page)
			}
			if width == 360 {
				assert.True(t, value[bool](b, `[...document.querySelectorAll("article img[src$='.svg']")].every(e => e.clientWidth > 600)`), "the text of drawings in %s", page)
			}
			assert.True(t, value[bool](b, code+`.every(e => getComputedStyle(e).overflowX === "auto")`), page)
		}
		b.clean(address)
	}
}
