package demo

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// commandEnv makes the test binary behave like the command.
const commandEnv = "RENEWDEMO_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		os.Exit(Main())
	}
	goleak.VerifyTestMain(m)
}

// notifyingBuffer sends everything written so far on wrote after each write.
type notifyingBuffer struct {
	all   strings.Builder
	wrote chan string
}

func (b *notifyingBuffer) Write(p []byte) (int, error) {
	n, err := b.all.Write(p)
	select {
	case b.wrote <- b.all.String():
	default:
	}
	return n, err
}

// command runs the command with the given arguments as a process. It calls during, if not
// nil, after the output contains text.
func command(t *testing.T, text string, during func(*os.Process), args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), commandEnv+"=1")
	out := &notifyingBuffer{wrote: make(chan string, 1000)}
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errs
	require.NoError(t, cmd.Start())
	if during != nil {
		timeout := time.After(time.Minute)
		for seen := ""; !strings.Contains(seen, text); {
			select {
			case seen = <-out.wrote:
			case <-timeout:
				_ = cmd.Process.Kill()
				seen = text
			}
		}
		during(cmd.Process)
	}
	_ = cmd.Wait()
	return out.all.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestAProofShowsTwoProcesses(t *testing.T) {
	t.Parallel()
	if !canStop {
		t.Skip("this system cannot stop a process")
	}
	server := testredis.Start(t)
	for name, args := range map[string][]string{"own server": {}, "given server": {"-store", server.Addr()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, code := command(t, "", nil, append(args, "-proof", "-ttl", "3s")...)
			assert.Empty(t, errs)
			assert.Zero(t, code)
			assert.Contains(t, out, "two processes")
			assert.Contains(t, out, "from the holder's notice to the rival's lock")
			assert.Contains(t, out, "from the holder's last step to the rival's lock")
			assert.Equal(t, 2, strings.Count(out, "rival   has the lock"))
			assert.Contains(t, out, "the holder never acted on the lock after the rival had it")
			assertFits(t, out)
			assertARivalComesAfterTheLease(t, out, 3*time.Second)
		})
	}
}

func TestAnInterruptReleasesAndPrintsOneLine(t *testing.T) {
	t.Parallel()
	if !canStop {
		t.Skip("this system cannot send an interrupt")
	}
	for _, args := range [][]string{
		{"-leases", "100"},
		{"-leases", "100", "-http", "localhost:0"}, // through the supervisor, with a rival
	} {
		_, errs, code := command(t, "acquired", func(p *os.Process) { _ = p.Signal(os.Interrupt) }, args...)
		assert.Equal(t, "renewdemo: interrupted: released 100 leases\n", errs)
		assert.Equal(t, 130, code)
	}
	_, errs, code := command(t, "waits for the lock", func(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }, "-proof")
	assert.Equal(t, "renewdemo: interrupted\n", errs)
	assert.Equal(t, 130, code)
}

// TestThePageEndsWithItsSupervisor kills the supervisor. The output ends when the last process does.
func TestThePageEndsWithItsSupervisor(t *testing.T) {
	t.Parallel()
	if !canStop {
		t.Skip("there is no supervisor on this system")
	}
	out, _, _ := command(t, "the page is at", func(p *os.Process) { _ = p.Kill() }, "-leases", "100", "-http", "localhost:0")
	assert.Contains(t, out, "the page is at http://")
}

func TestAnUnreachableServerIsOneError(t *testing.T) {
	t.Parallel()
	out, errs, code := command(t, "", nil, "-store", "redis://user:canary@localhost:1/0")
	assert.Empty(t, out)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "renewdemo: no Redis server at localhost:1: ")
	assert.NotContains(t, errs, "canary")
	assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
}
