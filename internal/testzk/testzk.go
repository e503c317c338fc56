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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
)

const (
	jars      = "/usr/share/java" // of the Debian package libzookeeper-java
	tick      = 200               // milliseconds
	startTime = 2 * time.Minute   // on a busy machine
)

// ErrMissing is the error of Launch without ZooKeeper.
var ErrMissing = errors.New("ZOOKEEPER IS MISSING: install the packages libzookeeper-java and default-jre-headless")

// Member is one server, in a process of its own.
type Member struct {
	Address    string
	dir        string
	properties []string
	process    *exec.Cmd
}

// Start starts an ensemble of n servers, and returns when they answer. The test ends them. Without
// ZooKeeper the test is skipped, or fails if the environment variable CI is set.
func Start(t testing.TB, n int) []*Member {
	t.Helper()
	return startWith(t, n, directly)
}

var (
	shareOnce sync.Once
	shared    []*Member
	errShared error
)

// Shared is Start for one server, which all tests of the process share. TestMain ends it by CloseShared.
func Shared(t testing.TB) *Member {
	t.Helper()
	shareOnce.Do(func() { shared, errShared = Launch(1) })
	if IsMissing(errShared) {
		t.Skipf("NOT TESTED: %v", errShared)
	}
	require.NoError(t, errShared)
	return shared[0]
}

// CloseShared ends the server of Shared, if there is one.
func CloseShared() { Close(shared) }

func startWith(t testing.TB, n int, at reach) []*Member {
	t.Helper()
	members, err := launchWith(n, at)
	if IsMissing(err) {
		t.Skipf("NOT TESTED: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { Close(members) })
	return members
}

var warn sync.Once

// IsMissing reports whether err is ErrMissing and the environment variable CI is not set. It prints a
// warning the first time, because go test shows a skipped test with -v only.
func IsMissing(err error) bool {
	if !errors.Is(err, ErrMissing) || os.Getenv("CI") != "" {
		return false
	}
	warn.Do(func() { fmt.Println("WARNING: NOT TESTED ON ZooKeeper, because zookeeper.jar or java is missing") })
	return true
}

// Launch starts an ensemble of n servers, and returns when they answer. The caller closes it. Further
// arguments are properties, such as "zookeeper.forceSync=yes".
func Launch(n int, properties ...string) ([]*Member, error) {
	return launchWith(n, directly, properties...)
}

// peers are the ports of a server for the others.
type peers struct{ quorum, election int }

// reach returns the addresses at which server i reaches server j, which is another one.
type reach func(i, j int, at peers) (quorum, election string, err error)

func directly(_, _ int, at peers) (quorum, election string, err error) {
	return local(at.quorum), local(at.election), nil
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// peerLines are the lines of the configuration of server i about all servers.
func peerLines(i int, all []peers, at reach) (string, error) {
	var lines strings.Builder
	for j, p := range all {
		by := at
		if i == j {
			by = directly
		}
		quorum, election, err := by(i, j, p)
		if err != nil {
			return "", err
		}
		_, port, _ := strings.Cut(election, ":")
		fmt.Fprintf(&lines, "server.%d=%s:%s\n", j+1, quorum, port)
	}
	return lines.String(), nil
}

func launchWith(n int, at reach, properties ...string) (members []*Member, err error) {
	_, errJar := os.Stat(filepath.Join(jars, "zookeeper.jar"))
	_, errJava := exec.LookPath("java")
	if errJar != nil && os.Getenv("ZOOKEEPER") == "" || errJava != nil {
		return nil, ErrMissing
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
	all := make([]peers, n)
	for i := range all {
		all[i] = peers{free[3*i+1], free[3*i+2]}
	}
	for i := range n {
		m := &Member{Address: local(free[3*i]), properties: properties}
		servers := ""
		if n > 1 {
			if servers, err = peerLines(i, all, at); err != nil {
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
	for end := time.Now().Add(startTime); ; time.Sleep(20 * time.Millisecond) {
		ready := 0
		for _, m := range members {
			if m.Mode() != "" {
				ready++
			}
		}
		switch {
		case ready == n:
			return members, nil
		case time.Now().After(end):
			return members, fmt.Errorf("%d of %d ZooKeeper servers have started within %v", ready, n, startTime)
		}
	}
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
func (m *Member) launch() error {
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	// A killed process loses nothing that the kernel has, so tests need no fsync.
	for _, p := range append([]string{"zookeeper.jmx.log4j.disable=true", "zookeeper.forceSync=no", "zookeeper.extendedTypesEnabled=true"}, m.properties...) {
		args = append(args, "-D"+p)
	}
	args = append(args, "-cp", classPath(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(m.dir, "zoo.cfg"))
	m.process = exec.Command("java", args...)
	m.process.Stdout, m.process.Stderr = log, log
	m.process.SysProcAttr = testprocess.Detached()
	if err := m.process.Start(); err != nil {
		m.process = nil
		return err
	}
	return nil
}

// Forget removes the data of a server that has been killed.
func (m *Member) Forget(t testing.TB) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(m.dir, "version-2")))
}

// Kill ends the server without warning. It does nothing if the server has ended.
func (m *Member) Kill() {
	if m.process != nil && m.process.ProcessState == nil {
		_ = m.process.Process.Kill()
		_ = m.process.Wait()
	}
}

// Signal sends a signal to the server, such as SIGSTOP.
func (m *Member) Signal(t testing.TB, s os.Signal) {
	t.Helper()
	require.NoError(t, m.process.Process.Signal(s))
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
func (m *Member) Process() *os.Process { return m.process.Process }
