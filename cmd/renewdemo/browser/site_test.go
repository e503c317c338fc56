package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheSiteFindsAWord searches the site in the folder that PAGE_SITE names, which make site builds.
func TestTheSiteFindsAWord(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("PAGE_SITE")
	if folder == "" {
		t.Skip("no PAGE_SITE")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(server.Close)
	b := newTab(t, 1280)
	b.do(chromedp.Navigate(server.URL + "/index.html"))
	search := chromedp.CSS("[data-md-component=search-query]")
	b.do(chromedp.WaitVisible(search), chromedp.Click(search), chromedp.SendKeys(search, "fencing"))
	const results = `[...document.querySelectorAll(".md-search-result__item a")].map(a => new URL(a.href).pathname)`
	require.Eventually(t, func() bool { return value[int](b, results+".length") > 2 }, patience, poll, "nothing is found")
	assert.Contains(t, value[[]string](b, results), "/docs/GUIDE.html")
	b.clean(server.URL)
}
