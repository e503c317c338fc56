// Package testzk starts ZooKeeper servers for tests and benchmarks.
package testzk

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
)

const (
	jars = "/usr/share/java" // of the Debian package libzookeeper-java
	tick = 200               // milliseconds
)

// Member is one server, in a process of its own.
type Member struct {
	Address    string
	dir        string
	properties []string
	process    *testprocess.Process
}

// Start starts an ensemble of n servers, and returns when they answer. The test ends them. Without
// ZooKeeper the test is skipped, or fails if the environment variable CI is set.
func Start(t testing.TB, n int) []*Member {
	t.Helper()
	return startWith(t, n, nil)
}

// ensemble is servers that Close ends together.
type ensemble []*Member

// Close implements testprocess.Server.
func (e ensemble) Close() { Close(e) }

var shared = testprocess.Shared[ensemble]{Launch: func() (ensemble, error) { return Launch(1) }}

// Shared is Start for one server, which all tests of the process share. Around ends it.
func Shared(t testing.TB) *Member {
	t.Helper()
	return shared.Get(t)[0]
}

// Around returns a runner that runs m and then ends the server of Shared.
func Around(m testprocess.Runner) testprocess.Runner { return testprocess.Around(m, &shared) }

func startWith(t testing.TB, n int, links *testproxy.Mesh) []*Member {
	t.Helper()
	members, err := launchWith(n, links)
	testprocess.Check(t, err)
	t.Cleanup(func() { Close(members) })
	return members
}

// Launch starts an ensemble of n servers, and returns when they answer. The caller closes it. Further
// arguments are properties, such as "zookeeper.forceSync=yes".
func Launch(n int, properties ...string) ([]*Member, error) {
	return launchWith(n, nil, properties...)
}

// peers are the ports of a server for the others.
type peers struct{ quorum, election int }

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// peerLines are the lines of the configuration of server i about all servers, which it reaches by links, unless they are nil.
//
// Of two servers the one with the higher number makes the connection for elections. If the other one
// tried, it would send its own address, and get a connection that passes by the links. So it tries in
// vain, at a port where nobody listens.
func peerLines(i int, all []peers, links *testproxy.Mesh) (string, error) {
	const nobody = "127.0.0.1:1"
	var lines strings.Builder
	for j, p := range all {
		quorum, election := local(p.quorum), local(p.election)
		if links != nil && i != j {
			var errs [2]error
			quorum, errs[0] = links.Link(i, j, quorum)
			if election = nobody; i > j {
				election, errs[1] = links.Link(i, j, local(p.election))
			}
			if err := errors.Join(errs[:]...); err != nil {
				return "", err
			}
		}
		_, port, _ := strings.Cut(election, ":")
		fmt.Fprintf(&lines, "server.%d=%s:%s\n", j+1, quorum, port)
	}
	return lines.String(), nil
}

// starting is held while servers start. A start needs a processor, which tests with a deadline would lack if all
// servers started at once.
var starting sync.Mutex

func launchWith(n int, links *testproxy.Mesh, properties ...string) (members []*Member, err error) {
	_, errJar := os.Stat(filepath.Join(jars, "zookeeper.jar"))
	_, errJava := exec.LookPath("java")
	if errJar != nil && os.Getenv("ZOOKEEPER") == "" || errJava != nil {
		return nil, &testprocess.MissingError{Server: "ZooKeeper", Program: "zookeeper.jar or java"}
	}
	defer func() {
		if err != nil {
			Close(members)
			members = nil
		}
	}()
	free, err := testproxy.FreePorts(3 * n)
	if err != nil {
		return nil, err
	}
	starting.Lock()
	defer starting.Unlock()
	all := make([]peers, n)
	for i := range all {
		all[i] = peers{free[3*i+1], free[3*i+2]}
	}
	for i := range n {
		m := &Member{Address: local(free[3*i]), properties: properties}
		servers := ""
		if n > 1 {
			if servers, err = peerLines(i, all, links); err != nil {
				return members, err
			}
		}
		if m.dir, err = os.MkdirTemp("", "testzk"); err != nil {
			return members, err
		}
		members = append(members, m)
		config := fmt.Sprintf("tickTime=%d\ninitLimit=50\nsyncLimit=15\nminSessionTimeout=%d\nmaxSessionTimeout=600000\ndataDir=%s\n"+
			"clientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n%s",
			tick, 4*tick, m.dir, free[3*i], servers)
		if err := os.WriteFile(filepath.Join(m.dir, "zoo.cfg"), []byte(config), 0o600); err != nil {
			return members, err
		}
		if err := os.WriteFile(filepath.Join(m.dir, "myid"), fmt.Appendf(nil, "%d", i+1), 0o600); err != nil {
			return members, err
		}
		if err := m.launch(); err != nil {
			return members, err
		}
	}
	for _, m := range members {
		err := m.process.Await(func() error {
			if m.Mode() == "" {
				return errors.New("it does not serve")
			}
			return nil
		})
		if err != nil {
			return members, err
		}
	}
	return members, nil
}

// Close kills the servers and removes their files.
func Close(members []*Member) {
	for _, m := range members {
		m.Kill()
		_ = os.RemoveAll(m.dir)
	}
}

// Run starts the server again, after Kill.
func (m *Member) Run(t testing.TB) {
	t.Helper()
	require.NoError(t, m.launch())
}

// classPath returns what the server consists of. The environment variable ZOOKEEPER names a folder with the jars of
// another version than that of the system.
func classPath() string {
	if folder := os.Getenv("ZOOKEEPER"); folder != "" {
		return filepath.Join(folder, "*")
	}
	var path []string
	for _, name := range []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "commons-cli", "snappy-java", "metrics-core", "log4j-1.2",
		"netty-all", "netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport",
		"netty-transport-native-epoll", "netty-transport-native-unix-common",
		"jackson-core", "jackson-databind", "jackson-annotations",
	} {
		path = append(path, filepath.Join(jars, name+".jar"))
	}
	return strings.Join(path, ":")
}

// launch starts the process.
func (m *Member) launch() (err error) {
	args := []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	// A killed process loses nothing that the kernel has, so tests need no fsync.
	for _, p := range append([]string{"zookeeper.jmx.log4j.disable=true", "zookeeper.forceSync=no", "zookeeper.extendedTypesEnabled=true"}, m.properties...) {
		args = append(args, "-D"+p)
	}
	args = append(args, "-cp", classPath(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(m.dir, "zoo.cfg"))
	m.process, err = testprocess.Start(exec.Command("java", args...))
	return err
}

// Forget removes the data of a server that has been killed.
func (m *Member) Forget(t testing.TB) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(m.dir, "version-2")))
}

// Kill ends the server without warning. It does nothing if the server has ended.
func (m *Member) Kill() {
	if m.process != nil {
		m.process.Kill()
	}
}

// Signal sends a signal to the server, such as SIGSTOP.
func (m *Member) Signal(t testing.TB, s os.Signal) {
	t.Helper()
	require.NoError(t, m.Process().Signal(s))
}

// Mode returns leader, follower or standalone, and "" if the server does not serve.
func (m *Member) Mode() string {
	_, mode, _ := strings.Cut(m.Ask("srvr"), "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}

// Ask returns the answer of the server to a word of four letters, such as dump, and "" if the server does
// not serve.
func (m *Member) Ask(word string) string {
	c, err := net.DialTimeout("tcp", m.Address, time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte(word)); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// Process returns the process of the server.
func (m *Member) Process() *os.Process { return m.process.Cmd.Process }

// Ensemble is servers that reach each other by links, which can be cut.
type Ensemble struct {
	Members []*Member
	links   testproxy.Mesh
}

// StartEnsemble is Start for servers with links.
func StartEnsemble(t testing.TB, n int) *Ensemble {
	t.Helper()
	e := new(Ensemble)
	t.Cleanup(e.links.Close)
	e.Members = startWith(t, n, &e.links)
	return e
}

// CutOff drops everything between a server and the others, in both directions, until heal is called.
func (e *Ensemble) CutOff(m *Member) (heal func()) {
	return e.links.CutOff(slices.Index(e.Members, m))
}
