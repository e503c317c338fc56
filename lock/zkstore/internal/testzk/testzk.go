// Package testzk starts ZooKeeper servers for tests.
package testzk

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

const (
	jars = "/usr/share/java" // of the Debian package zookeeper
	tick = 200               // milliseconds
)

// Member is one server, in a process of its own.
type Member struct {
	Address string
	dir     string
	process *exec.Cmd
}

// Start starts an ensemble of n servers, and returns when they answer. The test ends them. Without
// ZooKeeper the test is skipped, or fails if the environment variable CI is set.
func Start(t testing.TB, n int) []*Member {
	t.Helper()
	_, errJar := os.Stat(filepath.Join(jars, "zookeeper.jar"))
	_, errJava := exec.LookPath("java")
	if errJar != nil || errJava != nil {
		require.Empty(t, os.Getenv("CI"), "ZOOKEEPER IS MISSING: install the packages zookeeper and default-jre-headless")
		t.Skip("SKIPPED: ZOOKEEPER IS MISSING: install the packages zookeeper and default-jre-headless")
	}
	free := freePorts(t, 3*n)
	var servers strings.Builder
	for i := range n {
		if n > 1 {
			fmt.Fprintf(&servers, "server.%d=127.0.0.1:%d:%d\n", i+1, free[3*i+1], free[3*i+2])
		}
	}
	var members []*Member
	var addresses []string
	for i := range n {
		m := &Member{Address: fmt.Sprintf("127.0.0.1:%d", free[3*i]), dir: t.TempDir()}
		config := fmt.Sprintf("tickTime=%d\ninitLimit=50\nsyncLimit=15\nminSessionTimeout=%d\nmaxSessionTimeout=600000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n%s",
			tick, 4*tick, m.dir, free[3*i], servers.String())
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, "zoo.cfg"), []byte(config), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, "myid"), fmt.Appendf(nil, "%d", i+1), 0o600))
		m.Run(t)
		t.Cleanup(m.Kill)
		members, addresses = append(members, m), append(addresses, m.Address)
	}
	conn, _, err := zk.Connect(addresses, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	require.NoError(t, err)
	defer conn.Close()
	require.Eventually(t, func() bool {
		_, _, err := conn.Exists("/")
		return err == nil
	}, 2*time.Minute, 50*time.Millisecond)
	for _, m := range members {
		require.Eventually(t, func() bool { return m.Mode() != "" }, 2*time.Minute, 50*time.Millisecond)
	}
	return members
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// Run starts the server, also after Kill.
func (m *Member) Run(t testing.TB) {
	t.Helper()
	var path []string
	for _, name := range []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "commons-cli", "snappy-java", "metrics-core", "log4j-1.2",
		"netty-all", "netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport",
		"netty-transport-native-epoll", "netty-transport-native-unix-common",
		"jackson-core", "jackson-databind", "jackson-annotations",
	} {
		path = append(path, filepath.Join(jars, name+".jar"))
	}
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	m.process = exec.Command("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true",
		"-Dzookeeper.forceSync=no", "-Dzookeeper.extendedTypesEnabled=true", "-cp", strings.Join(path, ":"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(m.dir, "zoo.cfg"))
	m.process.Stdout, m.process.Stderr = log, log
	m.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, m.process.Start())
}

// Kill ends the server without warning. It does nothing if the server has ended.
func (m *Member) Kill() {
	if m.process.ProcessState == nil {
		_ = m.process.Process.Kill()
		_ = m.process.Wait()
	}
}

// Signal sends a signal to the server, such as SIGSTOP.
func (m *Member) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	require.NoError(t, m.process.Process.Signal(s))
}

// Mode returns leader, follower or standalone, and "" if the server does not serve.
func (m *Member) Mode() string {
	c, err := net.DialTimeout("tcp", m.Address, time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("srvr")); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(c)
	_, mode, _ := strings.Cut(string(answer), "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}
