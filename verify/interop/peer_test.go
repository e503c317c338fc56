package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/interop/internal/report"
)

// request and answer are the lines of the protocol; see the package documentation.
type request struct {
	Do      string `json:"do"`
	Kind    string `json:"kind,omitempty"`
	Key     string `json:"key,omitempty"`
	TTL     int64  `json:"ttl,omitempty"`
	Wait    int64  `json:"wait,omitempty"`
	N       int    `json:"n,omitempty"`
	Counter string `json:"counter,omitempty"`
}

type answer struct {
	Error   string     `json:"error,omitempty"`
	Version string     `json:"version,omitempty"`
	Held    bool       `json:"held"`
	Turns   [][2]int64 `json:"turns,omitempty"`
}

// runtime is a library in its language.
type runtime struct {
	name    string
	watches bool // the library renews locks by itself
	quorums bool // the library locks on several servers
	command func(t *testing.T) *exec.Cmd
}

// runtimes are the libraries whose locks have the format of lock/redlock.
func runtimes() []runtime {
	return []runtime{
		{name: "redsync", quorums: true, command: goPeer("redsync")},
		{name: "redislock", command: goPeer("redislock")},
		{name: "redis-py", command: pythonPeer},
		{name: "node", watches: true, quorums: true, command: nodePeer},
	}
}

// cache returns a folder for the libraries of a runtime.
func cache(t *testing.T, name string) string {
	t.Helper()
	base, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(base, "leasewheel", "interop", name)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// installed runs install unless the file that lists the versions is the same as at the last time. An
// error skips the test, because the packages may be out of reach.
func installed(t *testing.T, library, dir, versions string, install func() error) {
	t.Helper()
	wanted, err := os.ReadFile(versions)
	require.NoError(t, err)
	mark := filepath.Join(dir, "installed")
	if has, err := os.ReadFile(mark); err == nil && string(has) == string(wanted) {
		return
	}
	if err := install(); err != nil {
		report.Missing(t, library, err)
	}
	require.NoError(t, os.WriteFile(mark, wanted, 0o600))
}

// run runs a command that installs something. Its error has the output.
func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

var installing sync.Mutex // one test at a time installs a runtime

func pythonPeer(t *testing.T) *exec.Cmd {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	const library = "redis-py"
	report.Programs(t, library, "python3")
	dir := cache(t, "python")
	list, err := filepath.Abs("peers/python/requirements.txt")
	require.NoError(t, err)
	inside := filepath.Join(dir, "bin", "python")
	installed(t, library, dir, list, func() error {
		if err := run(dir, "python3", "-m", "venv", dir); err != nil {
			return err
		}
		return run(dir, inside, "-m", "pip", "install", "--quiet", "--requirement", list)
	})
	return exec.Command(inside, "peers/python/peer.py")
}

func nodePeer(t *testing.T) *exec.Cmd {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	const library = "node-redlock"
	report.Programs(t, library, "node", "npm")
	dir := cache(t, "node")
	list, err := filepath.Abs("peers/node/package-lock.json")
	require.NoError(t, err)
	for _, file := range []string{"package.json", "package-lock.json", "peer.mjs"} {
		text, err := os.ReadFile(filepath.Join("peers/node", file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	installed(t, library, dir, list, func() error {
		return run(dir, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	})
	return exec.Command("node", filepath.Join(dir, "peer.mjs"))
}

// goPeer returns the command of a peer that is this program.
func goPeer(library string) func(t *testing.T) *exec.Cmd {
	return func(*testing.T) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), peerEnv+"="+library)
		return cmd
	}
}

// peer is a running peer.
type peer struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a peer for a server, or for several with commas between their addresses. It ends with
// the test.
func start(t *testing.T, cmd *exec.Cmd, addrs string) *peer {
	t.Helper()
	cmd.Args = append(cmd.Args, addrs)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &peer{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return p
}

// ask sends a request and returns the answer.
func (p *peer) ask(r request) answer {
	p.t.Helper()
	a, err := p.try(r)
	require.NoError(p.t, err, r.Do)
	return a
}

func (p *peer) try(r request) (answer, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return answer{}, err
	}
	text, err := p.out.ReadBytes('\n')
	if err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return answer{}, fmt.Errorf("%w: %s", err, text)
	}
	if a.Error != "" {
		return answer{}, errors.New(a.Error)
	}
	return a, nil
}
