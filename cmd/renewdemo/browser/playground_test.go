package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// playground serves the folder that PAGE_PLAYGROUND names, below a path as GitHub Pages does, and returns its
// address.
func playground(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("PAGE_PLAYGROUND")
	if folder == "" {
		t.Skip("no PAGE_PLAYGROUND")
	}
	server := httptest.NewServer(http.StripPrefix("/leasewheel/playground/", http.FileServer(http.Dir(folder))))
	t.Cleanup(server.Close)
	return server.URL + "/leasewheel/playground/"
}

// TestThePlaygroundKeepsItsPromises loads the playground once, because that compiles the simulator.
func TestThePlaygroundKeepsItsPromises(t *testing.T) {
	t.Parallel()
	address := playground(t)
	b := newTab(t, 1280)
	b.prefer("light", "reduce") // shows the end at once
	b.do(chromedp.Navigate(address + "#lock=fenced&faults=failover.redis.12000.0"))
	require.Eventually(t, func() bool { return b.text("link") == "runs in your browser" }, 4*patience, poll, "the simulator does not load")
	b.settled()
	assert.Regexp(t, `the server has the lock for B, and A is not told.* late writes? (was|were) refused`, b.text("verdict"))
	assert.Contains(t, b.text("log"), "fails over")
	assert.Contains(t, b.text("log"), "script acquire lw:{lock}")

	b.changesAndRepeats()
	b.breaksEachLock()
	b.changesTheLock()
	b.searches()
	b.fits()
	b.clean(address)
}

// settled waits until the page shows the schedule that it asked for last.
func (b *tab) settled() {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return value[bool](b, "document.getElementById('stage').ariaBusy === 'false'")
	}, 4*patience, poll, "the schedule is not played")
}

// goTo opens another state of the playground without loading it again.
func (b *tab) goTo(hash string) {
	b.t.Helper()
	value[bool](b, fmt.Sprintf(`new Promise(done => { addEventListener("hashchange", () => done(true), {once: true}); location.hash = %q })`, hash))
	b.settled()
}

func (b *tab) hash() string {
	b.t.Helper()
	return value[string](b, "location.hash")
}

func (b *tab) choose(lock string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf("[data-lock=%s]", lock))))
	b.settled()
}

func (b *tab) press(id string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS("#" + id + ":enabled")))
}

// changesAndRepeats changes a schedule with keyboard and pointer, and opens the address that the page then has.
func (b *tab) changesAndRepeats() {
	b.t.Helper()
	b.do(chromedp.Focus(chromedp.CSS("#chips button")), chromedp.KeyEvent(kb.ArrowRight))
	b.settled()
	assert.Equal(b.t, "#lock=fenced&faults=failover.redis.13000.0", b.hash())
	b.do(chromedp.KeyEvent(kb.Delete))
	b.settled()
	assert.Equal(b.t, "#lock=fenced", b.hash())
	assert.Regexp(b.t, `^At most one client believes that it holds the lock\. \d+ writes so far, none of them wrong\.$`, b.text("verdict"))

	b.drag("[data-kind=pause]", 0, 20_000)
	b.settled()
	const chip = "document.querySelector('#chips button')?.ariaLabel ?? ''"
	hash, label := b.hash(), value[string](b, chip)
	assert.Regexp(b.t, `^#lock=fenced&faults=pause\.A\.(19|20|21)\d00\.35000$`, hash)
	assert.Contains(b.t, b.text("log"), "is paused")
	b.goTo("#lock=token")
	assert.NotContains(b.t, b.text("log"), "is paused")
	b.goTo(hash)
	assert.Equal(b.t, hash, b.hash())
	assert.Equal(b.t, label, value[string](b, chip))
	assert.Contains(b.t, b.text("log"), "is paused")
}

// drag drags an element to a time, in milliseconds, of a lane with the pointer.
func (b *tab) drag(from string, lane, at int) {
	b.t.Helper()
	point := value[[]float64](b, fmt.Sprintf(`(() => {
		document.getElementById("stage").scrollIntoView();
		const r = document.querySelector(%q).getBoundingClientRect(), s = document.getElementById("stage").getBoundingClientRect();
		return [r.left + 20, r.top + 20, s.left + 74 + (s.width - 84) * %d / 90000, s.top + 20 + %d * 58 + 30];
	})()`, from, at, lane))
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, point[0], point[1]))
	b.do(chromedp.MouseEvent(chromedp.MousePressed, point[0], point[1], chromedp.ButtonLeft))
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, point[2], point[3], chromedp.ButtonLeft))
	b.do(chromedp.MouseEvent(chromedp.MouseReleased, point[2], point[3], chromedp.ButtonLeft))
}

// breaksEachLock plays the known schedule of each lock that has one.
func (b *tab) breaksEachLock() {
	b.t.Helper()
	for _, lock := range []struct{ name, verdict string }{
		{"setnx", `^Nobody holds the lock, and nobody can ever get it`},
		{"setpx", `A and B believe that they hold the lock.* came too late`},
		{"token", `A and B believe that they hold the lock.* came too late`},
		{"redlock", `A and C believe that they hold the lock.* came too late`},
		{"redisson", `A and B believe that they hold the lock.* came too late`},
		{"ours", `the server has the lock for B, and A is not told.* came too late`},
	} {
		b.choose(lock.name)
		b.press("break")
		b.settled()
		assert.Regexp(b.t, lock.verdict, b.text("verdict"), lock.name)
		assert.Contains(b.t, b.hash(), "lock="+lock.name+"&faults=")
	}
	b.choose("fenced")
	assert.True(b.t, value[bool](b, "document.getElementById('break').disabled"), "no schedule is known for a lock with fencing")
}

// changesTheLock chooses another lock while the failure of the one before is shown. Nothing that the page then
// says is about the one before.
func (b *tab) changesTheLock() {
	b.t.Helper()
	b.choose("redisson")
	b.press("break")
	b.settled()
	require.Contains(b.t, b.text("verdict"), "came too late")
	texts := value[[]string](b, `new Promise(done => {
		const v = document.getElementById("verdict"), stage = document.getElementById("stage"), texts = [];
		new MutationObserver(() => texts.push(v.textContent)).observe(v, {childList: true});
		document.querySelector("[data-lock=fenced]").click();
		texts.push(v.textContent);
		const wait = setInterval(() => { if (stage.ariaBusy === "false") { clearInterval(wait); done(texts); } }, 20);
	})`)
	require.NotEmpty(b.t, texts)
	for _, text := range texts {
		assert.NotContains(b.t, text, "harmed", "a failure of the lock before")
	}
}

// searches lets one search end, stops one, and lets one find a schedule: the second one of its seed.
func (b *tab) searches() {
	b.t.Helper()
	b.goTo("#lock=fenced&search=1&seed=1")
	b.press("search")
	b.eventually("searched", `^[1-9][\d,]* schedules? with [1-9][\d,]* faults tried in [\d.]+ s: no promise was broken\.`)

	b.goTo("#lock=fenced&search=600&seed=1")
	b.press("search")
	b.eventually("searched", ` so far\.`)
	b.press("search")
	b.eventually("searched", `no promise was broken\.`)

	b.press("search")
	b.eventually("searched", ` so far\.`)
	value[bool](b, `document.querySelector("[data-kind=pause]").click(); true`)
	b.settled()
	assert.Equal(b.t, "The search was stopped.", b.text("searched"))
	assert.Equal(b.t, "#lock=fenced&faults=pause.A.10000.35000", b.hash(), "the fault that was pressed during the search")

	b.goTo("#lock=token&search=600&seed=17")
	b.press("search")
	b.eventually("searched", `: the last one breaks it, and is shown below\.$`)
	b.settled()
	assert.Regexp(b.t, `believe|too late|Nobody`, b.text("verdict"))
}

// fits checks the layout, the contrasts and the motion.
func (b *tab) fits() {
	b.t.Helper()
	b.goTo("#lock=setpx&faults=pause.A.10000.30000~clock.redis.70000.5000~cut.B.80000.10000")
	for _, visitor := range []struct {
		width  int
		scheme string
	}{{360, "dark"}, {1280, "light"}} {
		b.size(visitor.width)
		b.prefer(visitor.scheme, "reduce")
		assert.LessOrEqual(b.t, value[int](b, "document.documentElement.scrollWidth"), visitor.width, "no horizontal scroll")
		assert.Empty(b.t, value[[]string](b, outside), "elements outside at %d", visitor.width)
		b.contrasts(visitor.scheme, visitor.width)
	}
	b.prefer("light", "no-preference")
	value[bool](b, `(() => { window.early = []; const v = document.getElementById("verdict"); new MutationObserver(() => { if (document.getElementById("head").value < 90000) window.early.push(v.textContent) }).observe(v, {childList: true}); return true })()`)
	// The animation lasts ten seconds. The first frame proves it, whenever it is drawn.
	value[bool](b, `(() => { window.moved = false; new MutationObserver(() => { window.moved ||= document.getElementById("clock").textContent !== "90.0 s" }).observe(document.getElementById("clock"), {childList: true}); return true })()`)
	b.press("break")
	require.Eventually(b.t, func() bool { return value[bool](b, "window.moved") }, patience, poll, "the time moves")
	b.eventually("clock", `^90\.0 s$`)
	for _, text := range value[[]string](b, "window.early") {
		assert.NotContains(b.t, text, "A wakes up", "the end of the story, while it is played")
	}
	assert.Contains(b.t, b.text("verdict"), "A wakes up")
}
