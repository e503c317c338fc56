package redisson

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/interop/internal/report"
)

// library is what the report calls the peer.
const library = "Redisson"

// jvm builds the peer once and starts processes of it.
type jvm struct {
	once      sync.Once
	classpath string
	folder    string // temporary; removed by TestMain
	missing   error  // the libraries are out of reach
	err       error
}

var java jvm

// build fetches the libraries of the peer and compiles it.
func (j *jvm) build() {
	if j.folder, j.err = os.MkdirTemp("", "redisson-peer"); j.err != nil {
		return
	}
	jars, classes := filepath.Join(j.folder, "jars"), filepath.Join(j.folder, "classes")
	j.classpath = classes + string(os.PathListSeparator) + filepath.Join(jars, "*")
	j.missing = command("mvn", "-q", "-B", "-f", "java/pom.xml", "dependency:copy-dependencies", "-DoutputDirectory="+jars)
	if j.missing == nil {
		j.err = command("javac", "-cp", filepath.Join(jars, "*"), "-d", classes, "java/RedissonPeer.java")
	}
}

// command runs a program. Its error has the output.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// peer is a running process that uses Redisson.
type peer struct {
	t       testing.TB
	command *exec.Cmd
	input   io.WriteCloser
	ended   chan struct{} // closed when the output has ended
	serial  atomic.Int64

	mu      sync.Mutex // guards all below, and writes to input
	answers map[string]chan answer
}

type answer struct{ kind, text string }

// peerOptions say how a peer is started. Addresses have the form single:host:port or cluster:host:port.
type peerOptions struct {
	addr     string
	counters string        // the server of counters and lists; default addr
	fairWait time.Duration // fairLockWaitTimeout
}

// startPeer starts a process, which ends with the test. Its watchdog gives locks the TTL watchdog.
func startPeer(t testing.TB, o peerOptions) *peer {
	t.Helper()
	report.Programs(t, library, "java", "javac", "mvn")
	java.once.Do(java.build)
	if java.missing != nil {
		report.Missing(t, library, java.missing)
	}
	require.NoError(t, java.err)
	p := &peer{t: t, ended: make(chan struct{}), answers: make(map[string]chan answer)}
	p.command = exec.Command("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", java.classpath, "RedissonPeer", o.addr,
		millis(watchdog), millis(o.fairWait), cmp.Or(o.counters, o.addr))
	var err error
	p.input, err = p.command.StdinPipe()
	require.NoError(t, err)
	output, err := p.command.StdoutPipe()
	require.NoError(t, err)
	ready := p.expect("0")
	require.NoError(t, p.command.Start())
	go p.read(output)
	t.Cleanup(p.kill)
	p.await(ready, "the start")
	report.Note("%s", p.do("main", "hello"))
	return p
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// read delivers the answers until the output ends.
func (p *peer) read(output io.Reader) {
	defer close(p.ended)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		words := strings.SplitN(lines.Text(), "\t", 3)
		if len(words) != 3 {
			continue // a message of a library
		}
		p.mu.Lock()
		waiting := p.answers[words[0]]
		delete(p.answers, words[0])
		p.mu.Unlock()
		if waiting != nil {
			waiting <- answer{words[1], words[2]}
		}
	}
}

// kill ends the process at once, with SIGKILL.
func (p *peer) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
	_ = p.command.Wait()
}

func (p *peer) expect(number string) chan answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan answer, 1)
	p.answers[number] = c
	return c
}

// start sends a command of a thread and returns the channel of its answer.
func (p *peer) start(thread string, words ...string) chan answer {
	number := strconv.FormatInt(p.serial.Add(1), 10)
	c := p.expect(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintln(p.input, strings.Join(append([]string{number, thread}, words...), "\t"))
	assert.NoError(p.t, err)
	return c
}

// await returns the text of an answer, which must not be an error.
func (p *peer) await(c chan answer, what string) string {
	p.t.Helper()
	return p.within(limit, c, what)
}

// woken is await for a waiter that only a message can wake in time.
func (p *peer) woken(c chan answer) string {
	p.t.Helper()
	return p.within(woken, c, "the message has not woken the peer")
}

func (p *peer) within(most time.Duration, c chan answer, what string) string {
	p.t.Helper()
	select {
	case a := <-c:
		require.Equal(p.t, "ok", a.kind, "%s: %s", what, a.text)
		return a.text
	case <-p.ended:
		require.Fail(p.t, "the peer has ended", what)
	case <-time.After(most):
		require.Fail(p.t, "no answer of the peer", what)
	}
	return ""
}

// do sends a command of a thread and returns the answer.
func (p *peer) do(thread string, words ...string) string {
	p.t.Helper()
	return p.await(p.start(thread, words...), strings.Join(words, " "))
}

// pending expects that a command has not been answered.
func (p *peer) pending(c chan answer) {
	p.t.Helper()
	select {
	case a := <-c:
		require.Fail(p.t, "the peer must wait", "%v", a)
	default:
	}
}
