//go:build unix

package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// A process that gets too little CPU time loses its locks, and no cause blames the server, which is idle.
func TestTooLittleCPUIsNotTheServersFault(t *testing.T) {
	h := startHolder(t, "GOMAXPROCS=1", starvedEnv+"=1")
	require.NoError(t, h.process.Signal(syscall.SIGUSR1))
	causes := h.line(t)
	t.Log(causes)
	assert.Regexp(t, `^((unknown|process paused) \d+ ?)+$`, causes, "which are the causes of all losses")
}

const (
	starvedEnv   = "LEASEWHEEL_TEST_STARVED" // makes the holder one that is starved of CPU time
	starvedTTL   = 3 * time.Second
	holderEnv    = "LEASEWHEEL_TEST_HOLDER" // names the server to the process that is paused
	holderTTL    = 8 * time.Second          // a busy machine must not lose leases within half of it
	holderLeases = 200
)

func TestAHolderPausedForHalfATTLLosesNothing(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	h.pause(t, holderTTL/2)
	assert.Equal(t, "valid 200", h.line(t))
	assert.Equal(t, "lost 0", h.line(t))
}

// holder is a separate process that holds locks.
type holder struct {
	process *os.Process
	lines   *bufio.Scanner
}

func startHolder(t *testing.T, env ...string) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), holderEnv+"="+testredis.Start(t).Addr()), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // in an orphaned group the kernel would end the pause
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	h := &holder{process: cmd.Process, lines: bufio.NewScanner(out)}
	require.Equal(t, "held", h.line(t))
	return h
}

// line returns the next line of the holder's output.
func (h *holder) line(t *testing.T) string {
	t.Helper()
	require.True(t, h.lines.Scan(), "the holder has ended")
	return h.lines.Text()
}

func (h *holder) pause(t *testing.T, d time.Duration) {
	t.Helper()
	require.NoError(t, h.process.Signal(syscall.SIGSTOP))
	time.Sleep(d)
	require.NoError(t, h.process.Signal(syscall.SIGCONT))
}

func init() {
	if addr := os.Getenv(holderEnv); addr != "" {
		instead = func() { hold(addr) }
		if os.Getenv(starvedEnv) != "" {
			instead = func() { holdStarved(addr) }
		}
	}
}

// hold is the main function of the holder. It reads the clock in a loop, so that it notices
// the pause before any timer does.
func hold(addr string) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	store, err := New(rdb, nil)
	must(err)
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: holderTTL}})
	must(err)
	var held []*lock.Held
	for i := range holderLeases {
		h, err := client.Mutex(fmt.Sprint("paused:", i)).Lock(context.Background())
		must(err)
		held = append(held, h)
	}
	time.Sleep(holderTTL / 3) // renewals have begun
	last := time.Now()        // before the output, because the pause may begin right after it
	fmt.Println("held")

	for began := last; ; {
		now := time.Now()
		if now.Sub(last) > holderTTL*3/8 {
			break
		}
		if now.Sub(began) > 10*holderTTL {
			fmt.Println("not paused")
			return
		}
		last = now
	}
	valid := 0
	for _, h := range held {
		if h.Valid() {
			valid++
		}
	}
	fmt.Println("valid", valid)
	time.Sleep(holderTTL)
	lost := 0
	for _, h := range held {
		if h.Err() != nil {
			lost++
		}
	}
	fmt.Println("lost", lost)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// holdStarved is the main function of a holder that is starved of CPU time by its own goroutines, from SIGUSR1 on. It
// prints the causes of its losses.
func holdStarved(addr string) {
	store, err := New(redis.NewClient(&redis.Options{Addr: addr}), nil)
	must(err)
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: starvedTTL}})
	must(err)
	var held []*lock.Held
	for i := range 20 {
		h, err := client.Mutex(fmt.Sprint("starved:", i)).Lock(context.Background())
		must(err)
		held = append(held, h)
	}
	busy := make(chan os.Signal, 1)
	signal.Notify(busy, syscall.SIGUSR1)
	fmt.Println("held")
	<-busy
	for range 60 {
		go func() {
			for x := 1; ; {
				x++ // never ends
			}
		}()
	}
	causes := make(map[renewal.Cause]int)
	for _, h := range held {
		<-h.Done()
		var loss *renewal.LostError
		if errors.As(h.Err(), &loss) {
			causes[loss.Cause()]++
			fmt.Fprintln(os.Stderr, loss.Cause(), loss.Seen())
		}
	}
	for cause, n := range causes {
		fmt.Print(cause, " ", n, " ")
	}
	fmt.Println()
}
