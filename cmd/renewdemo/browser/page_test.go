// Package browser opens the page of renewdemo, the playground and the site in a real browser. The tests need chromium,
// a redis-server and a built playground; make page-test provides them. With PAGE_SCREENSHOTS=folder they leave pictures there.
package browser

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.Remove(executable)
		os.Exit(code)
	}))
}

const (
	leases   = 2000
	patience = 30 * time.Second // nothing is asserted to be fast
	poll     = 100 * time.Millisecond
)

var executable = filepath.Join(os.TempDir(), fmt.Sprintf("renewdemo-%d", os.Getpid()))

// build builds the demo once.
var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", executable, "./cmd/renewdemo")
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
})

// demo starts the program and returns the address of its page. With redis it may start a redis-server.
func demo(t *testing.T, redis bool, args ...string) string {
	t.Helper()
	require.NoError(t, build())
	cmd := exec.Command(executable, append([]string{"-http", "localhost:0", "-leases", fmt.Sprint(leases)}, args...)...)
	if !redis {
		cmd.Env = append(os.Environ(), "PATH=")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	address := make(chan string, 1)
	var read sync.WaitGroup
	read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := regexp.MustCompile(`http://\S+/`).FindString(lines.Text()); m != "" {
				address <- m
			}
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		read.Wait()
		_ = cmd.Wait()
	})
	select {
	case a := <-address:
		return a
	case <-time.After(patience):
		require.Fail(t, "the demo did not print its address")
		return ""
	}
}

// tab is a tab of the browser, with what went wrong in it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex // guards all fields below
	problems []string
	hosts    map[string]bool // of all requests
}

// open opens the page of a demo in a new browser.
func open(t *testing.T, address string, width int) *tab {
	t.Helper()
	b := newTab(t, width)
	b.do(chromedp.Navigate(address), chromedp.WaitVisible(chromedp.ID("held")))
	value[bool](b, `for (const e of document.querySelectorAll("#verdict, #link"))
		new MutationObserver(() => e.texts?.push(e.textContent)).observe(e, {childList: true}); true`)
	value[bool](b, contradictions)
	return b
}

// contradictions collects the sentences that do not agree with the figures beside them. An element changes
// within the same task as its neighbours, so an observer sees all of them as a visitor does.
const contradictions = `window.contradictions = [];
	new MutationObserver(() => {
		const words = verdict.textContent, n = document.getElementById("held").textContent;
		const valid = words.match(/: ([\d,]+) leases are still valid/);
		if (valid && (valid[1] !== n || n === "0")) window.contradictions.push(words + " Held: " + n);
		if (/are still valid|every lease is/.test(words) && !valid) window.contradictions.push(words);
	}).observe(document.body, {childList: true, subtree: true}); true`

// newTab starts a browser.
func newTab(t *testing.T, width int) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("disable-component-update", true))
	allocator, endBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	b := &tab{t: t, hosts: map[string]bool{}}
	var endTab context.CancelFunc
	b.ctx, endTab = chromedp.NewContext(allocator, chromedp.WithListener(b.listen))
	t.Cleanup(func() {
		_ = chromedp.Cancel(b.ctx) // waits for the end of the browser
		endTab()
		endBrowser()
	})
	require.NoError(t, chromedp.Do(b.ctx)) // starts the browser, which lives as long as this context
	call(b, log.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	b.size(width)
	return b
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	problem := func(format string, args ...any) { b.problems = append(b.problems, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem("exception: %v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		problem("console: %v", e.Type)
	case *log.EventEntryAdded:
		problem("log: %s %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Host != "" { // data: has none
			b.hosts[u.Host] = true
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			problem("failed: %s", e.ErrorText)
		}
	}
}

// do runs steps within the patience of the test.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// call calls a command of the protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	require.NoError(b.t, err)
	return result
}

// value evaluates an expression, and waits for it if it is a promise.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return v
}

func (b *tab) size(width int) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: int64(width), Height: 900, DeviceScaleFactor: 1, Mobile: width < 500,
	})
}

// prefer sets the colours and the motion that the visitor prefers, and waits until they are drawn.
func (b *tab) prefer(scheme, motion string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}})
	value[bool](b, `new Promise(done => setTimeout(() => requestAnimationFrame(() => done(true)), 250))`)
}

func (b *tab) text(id string) string {
	b.t.Helper()
	return value[string](b, fmt.Sprintf("document.getElementById(%q).textContent", id))
}

// eventually waits until an element has a text.
func (b *tab) eventually(id, pattern string) {
	b.t.Helper()
	last := ""
	ok := assert.Eventually(b.t, func() bool {
		last = b.text(id)
		return regexp.MustCompile(pattern).MatchString(last)
	}, patience, poll, "%s never matches %q", id, pattern)
	require.True(b.t, ok, "%s is %q", id, last)
}

// showed waits until an element has had a text since the last click, if only for a moment.
func (b *tab) showed(id, pattern string) {
	b.t.Helper()
	var last []string
	ok := assert.Eventually(b.t, func() bool {
		last = value[[]string](b, fmt.Sprintf("document.getElementById(%q).texts", id))
		return slices.ContainsFunc(last, regexp.MustCompile(pattern).MatchString)
	}, patience, poll, "%s never matches %q", id, pattern)
	require.True(b.t, ok, "%s was %q", id, last)
}

// click injects a fault.
func (b *tab) click(fault string) {
	b.t.Helper()
	value[bool](b, `document.getElementById("verdict").texts = []; document.getElementById("link").texts = []; true`)
	b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf("[data-fault=%s]:enabled", fault))))
}

// recovered waits until so many leases are held, which are all, and the rival waits again.
func (b *tab) recovered(all string) {
	b.t.Helper()
	b.eventually("held", "^"+all+"$")
	require.Eventually(b.t, func() bool {
		return strings.Contains(value[string](b, "document.getElementById('lanes').getAttribute('aria-label')"), "the rival waits")
	}, patience, poll)
}

// screenshots writes pictures of the upper part of the page if PAGE_SCREENSHOTS is set, and for narrow screens of
// what has happened.
func (b *tab) screenshots() {
	b.t.Helper()
	folder := os.Getenv("PAGE_SCREENSHOTS")
	if folder == "" {
		return
	}
	require.Regexp(b.t, `told, each at least .* The rival got the watched lock`, b.text("verdict"), "a picture of a machine that was too busy")
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, 1, 1)) // off the buttons
	beyond := true
	bottom := value[float64](b, "document.querySelector('.tiles').getBoundingClientRect().bottom + scrollY + 12")
	for _, scheme := range []string{"dark", "light"} {
		b.prefer(scheme, "no-preference")
		picture := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Clip: &page.Viewport{Width: 1280, Height: bottom, Scale: 1}, CaptureBeyondViewport: &beyond,
		})
		require.NoError(b.t, os.WriteFile(filepath.Join(folder, "page-"+scheme+".png"), picture.Data, 0o644))
	}
	b.size(360)
	for _, scheme := range []string{"dark", "light"} {
		b.prefer(scheme, "no-preference")
		top := value[float64](b, "document.getElementById('verdict').getBoundingClientRect().top + scrollY - 12")
		bottom := value[float64](b, "document.querySelector('.lane').getBoundingClientRect().bottom + scrollY + 8")
		picture := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Clip: &page.Viewport{Y: top, Width: 360, Height: bottom - top, Scale: 2}, CaptureBeyondViewport: &beyond,
		})
		require.NoError(b.t, os.WriteFile(filepath.Join(folder, "narrow-"+scheme+".png"), picture.Data, 0o644))
	}
	b.size(1280)
}

// clean checks that nothing went wrong and nothing left the machine.
func (b *tab) clean(address string) {
	b.t.Helper()
	u, err := url.Parse(address)
	require.NoError(b.t, err)
	assert.Empty(b.t, value[[]string](b, "window.contradictions ?? []"))
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(b.t, b.problems)
	assert.Equal(b.t, map[string]bool{u.Host: true}, b.hosts)
}

// TestEachButtonHasItsEffect presses each button of the page and reads what the page says about it.
func TestEachButtonHasItsEffect(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH")
	}
	address := demo(t, true, "-ttl", "3s")
	b := open(t, address, 1280)
	b.recovered("2,000")
	b.eventually("rate", "^[1-9]")
	rate := b.text("rate")
	require.Eventually(t, func() bool { return b.text("rate") != rate }, patience, poll, "the numbers move")
	b.eventually("engine-note", `Inside: 64 buckets of \S+ ms with [1-9]`)

	b.click("hang")
	b.eventually("verdict", `^The store hangs`)
	// The machine of a test may be too busy to tell all holders in time. The page then says so.
	b.eventually("verdict", `All 2,000 holders were told, (each at least .* before its lease ended|.* after the store could grant the key).* The rival (got|had) the watched lock`)
	assert.Equal(t, "0", b.text("held"))
	b.eventually("losses", `deadline passed`)
	b.click("hang")
	b.eventually("verdict", `^The store answered again`)
	b.recovered("2,000")
	b.screenshots()

	b.click("steal")
	b.eventually("verdict", `^10 keys were deleted at the store\. All 10 holders were told, the last .* with the right reason`)
	b.eventually("losses", `no longer owned`)
	b.recovered("2,000")

	b.click("pause")
	b.showed("link", `^no news for`)
	b.showed("verdict", `silent for .* it is stopped`)
	b.eventually("verdict", `Valid\(\) was true for 0 of 2,000 leases\. All 2,000 holders were told`)
	require.Eventually(t, func() bool {
		return strings.HasPrefix(value[string](b, "document.getElementById('told').getAttribute('aria-label')"), "2,000 of 2,000 holders")
	}, patience, poll, "the chart shows what the text says")
	b.eventually("link", `^live$`)
	b.recovered("2,000")

	b.click("kill")
	b.showed("verdict", `^redis-server was killed`)
	// On a busy machine the server may be away for longer than renewals bridge.
	b.eventually("verdict", `^redis-server was away for .* and kept its data\. (No lease was lost\.|.* told)`)
	require.Eventually(t, func() bool { return value[bool](b, "!document.querySelector('[data-fault=forget]').disabled") }, patience, poll)
	b.recovered("2,000")

	b.click("forget")
	b.eventually("verdict", `without its data.* All 2,000 holders were told`)
	b.recovered("2,000")
	b.clean(address)
}

// TestNoSentenceContradictsItsFigures breaks leases that are so short that they are all lost while the
// server is away, on a narrow page.
func TestNoSentenceContradictsItsFigures(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH")
	}
	address := demo(t, true, "-leases", "500", "-ttl", "500ms")
	b := open(t, address, 360)
	for range 2 {
		b.eventually("held", "^[1-9]")
		b.click("kill")
		b.showed("verdict", `^redis-server was killed`) // the verdict before is that of the kill before
		b.eventually("verdict", `^redis-server was away for`)
	}
	b.recovered("500")
	b.click("hang")
	b.eventually("verdict", `The rival (got|had) the watched lock`)
	assert.Empty(t, value[[]string](b, `[...document.querySelectorAll("#lanes text.halo")].filter(e => e.getBoundingClientRect().right > document.getElementById("lanes").getBoundingClientRect().right + 1).map(e => e.textContent)`), "clipped texts")
	b.clean(address)
}

// TestThePageFitsEachVisitor checks the layout, the contrasts and the keyboard, with a heap in place of
// the wheel and without a server.
func TestThePageFitsEachVisitor(t *testing.T) {
	t.Parallel()
	address := demo(t, false, "-engine", "heap")
	b := open(t, address, 360)
	b.recovered("2,000")
	b.eventually("engine-note", `2,00\d timers\. The root is due in`)
	assert.Contains(t, b.text("buttons"), "needs a redis-server in PATH")
	assert.True(t, value[bool](b, "document.querySelector('[data-fault=kill]').disabled"))

	for _, width := range []int{360, 768, 1280} {
		b.size(width)
		for _, scheme := range []string{"light", "dark"} {
			b.prefer(scheme, "no-preference")
			assert.LessOrEqual(t, value[int](b, "document.documentElement.scrollWidth"), width, "no horizontal scroll at %d", width)
			assert.Empty(t, value[[]string](b, outside), "elements outside at %d", width)
			b.contrasts(scheme, width)
		}
	}

	b.prefer("light", "reduce")
	before := b.text("engine-note")
	require.Eventually(t, func() bool { return b.text("engine-note") != before }, patience, poll, "numbers move without motion")

	b.do(chromedp.KeyEvent(kb.Tab))
	assert.Equal(t, "hang", value[string](b, "document.activeElement.dataset.fault"))
	b.do(chromedp.KeyEvent(kb.Enter))
	b.eventually("verdict", `^The store hangs`)
	b.do(chromedp.KeyEvent(" "))
	b.eventually("verdict", `^The store answered again`)
	b.clean(address)
}

// TestAPageWithoutASizeDrawsNothing hides the page, as before its layout and in a folded frame. An exception would end the loop
// that draws.
func TestAPageWithoutASizeDrawsNothing(t *testing.T) {
	t.Parallel()
	address := demo(t, false)
	b := open(t, address, 1280)
	b.eventually("engine-note", `Inside: 64 buckets`)
	value[bool](b, `document.querySelector("main").style.display = "none"; true`)
	rate := b.text("rate")
	require.Eventually(t, func() bool { return b.text("rate") != rate }, patience, poll, "news still come")
	value[bool](b, `dispatchEvent(new Event("resize"))`) // draws at once
	b.clean(address)

	value[bool](b, `document.querySelector("main").style.display = ""; true`)
	note := b.text("engine-note")
	require.Eventually(t, func() bool { return b.text("engine-note") != note }, patience, poll, "it goes on")
	b.clean(address)
}

// outside is an expression for the elements that do not fit into the page.
const outside = `[...document.querySelectorAll("body *")].filter(e => { const r = e.getBoundingClientRect(); return r.width > 0 && !e.closest("svg *, .losses, .spoken, #chips, .log") && (r.right > innerWidth + 1 || r.left < -1 || e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline") }).map(e => e.tagName + "." + (e.id || e.className))`

// contrasts checks the page with axe-core, if PAGE_AXE names its file: with all rules, or with some.
func (b *tab) contrasts(scheme string, width int, rules ...string) {
	b.t.Helper()
	file := os.Getenv("PAGE_AXE")
	if file == "" {
		return
	}
	axe, err := os.ReadFile(file)
	require.NoError(b.t, err)
	value[bool](b, string(axe)+"; true")
	options := `{resultTypes: ["violations"]}`
	if len(rules) > 0 {
		options = fmt.Sprintf(`{resultTypes: ["violations"], runOnly: ["%s"]}`, strings.Join(rules, `", "`))
	}
	found := value[[]string](b, `axe.run(`+options+`).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target + " " + n.failureSummary)))`)
	assert.Empty(b.t, found, "%s at %d", scheme, width)
}
