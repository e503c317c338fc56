//go:build unix

package redisstore

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
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
	for name, starve := range map[string]func(t *testing.T, h *holder){
		"busy goroutines": func(t *testing.T, h *holder) {
			require.NoError(t, h.process.Signal(syscall.SIGUSR1))
		},
		"a quota": func(t *testing.T, h *holder) {
			group := filepath.Join("/sys/fs/cgroup/cpu", fmt.Sprint("leasewheel-", os.Getpid()))
			if err := os.Mkdir(group, 0o755); err != nil {
				t.Skip("this machine lets nobody set a quota: ", err)
			}
			t.Cleanup(func() {
				_ = h.process.Kill()
				assert.Eventually(t, func() bool { return os.Remove(group) == nil }, long, 10*time.Millisecond)
			})
			write := func(file, text string) {
				require.NoError(t, os.WriteFile(filepath.Join(group, file), []byte(text), 0o600))
			}
			write("cpu.cfs_period_us", "1000000")
			write("cpu.cfs_quota_us", "1000")
			write("cgroup.procs", strconv.Itoa(h.process.Pid))
			time.Sleep(4 * starvedTTL)
			write("cpu.cfs_quota_us", "-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHolder(t, "GOMAXPROCS=1", starvedEnv+"=1")
			starve(t, h)
			causes := h.line(t)
			t.Log(causes)
			assert.Regexp(t, `^((unknown|process paused) \d+ ?)+$`, causes, "which are the causes of all losses")
		})
	}
}

// The wall clock of a process is stepped. A step back costs no lease, and a step forward is the cause of the loss.
func TestAStepOfTheClockOfAProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the clock of a process alone can be stepped on linux/amd64 only")
	}
	h := startHolder(t, steppedEnv+"=1")
	line := h.line(t)
	if strings.HasPrefix(line, "refused") {
		t.Skip("this machine lets no process write its own code: ", line)
	}
	assert.Equal(t, "held after a step back: true", line)
	assert.Equal(t, "clock stepped, a clock was stepped: true", h.line(t))
}

const (
	steppedEnv   = "LEASEWHEEL_TEST_STEPPED" // makes the holder one whose clock is stepped
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

func TestAHolderPausedForTwoTTLsIsInvalidAtOnce(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	h.pause(t, 2*holderTTL)
	assert.Equal(t, "valid 0", h.line(t), "no handle is valid at the first check, even if no timer has run yet")
	assert.Equal(t, "lost 200", h.line(t))
	assert.Equal(t, "process paused 200", h.line(t), "the causes of the losses")
	assert.Equal(t, "seen 200", h.line(t), "the losses with that evidence")
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
		if os.Getenv(steppedEnv) != "" {
			instead = func() { holdStepped(addr) }
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
	lost, stalled, causes := 0, 0, make(map[renewal.Cause]int)
	for _, h := range held {
		if h.Err() == nil {
			continue
		}
		lost++
		var loss *renewal.LostError
		if !errors.As(h.Err(), &loss) {
			continue
		}
		causes[loss.Cause()]++
		if strings.Contains(loss.Seen(), "the process did not run for ") {
			stalled++
		}
	}
	fmt.Println("lost", lost)
	for cause, n := range causes {
		fmt.Println(cause, n)
	}
	fmt.Println("seen", stalled)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// holdStarved is the main function of a holder that is starved of CPU time. After SIGUSR1 its own goroutines do that. It
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
	select {
	case <-busy:
		for range 60 {
			go func() {
				for x := 1; ; {
					x++ // never ends
				}
			}()
		}
	case <-held[0].Done():
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

// holdStepped is the main function of a holder that steps its wall clock back, and then forward.
func holdStepped(addr string) {
	store, err := New(redis.NewClient(&redis.Options{Addr: addr}), nil)
	must(err)
	renewed := make(chan struct{}, 1000)
	hooks := &lock.Hooks{BatchDone: func(renewal.BatchInfo) { renewed <- struct{}{} }}
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: holderTTL}, Hooks: hooks})
	must(err)
	held, err := client.Mutex("stepped").Lock(context.Background())
	must(err)
	fmt.Println("held")
	<-renewed
	if err := stepClock(-time.Hour); err != nil {
		fmt.Println("refused:", err)
		return
	}
	<-renewed
	<-renewed
	fmt.Println("held after a step back:", held.Valid() && held.Err() == nil)
	must(stepClock(0))
	<-held.Done()
	var loss *renewal.LostError
	errors.As(held.Err(), &loss)
	fmt.Printf("%v, a clock was stepped: %v\n", loss.Cause(), strings.Contains(loss.Seen(), "a clock was stepped"))
}

// stepClock sets the wall clock of this process to that of the machine and d, in whole seconds. The runtime reads clocks by a
// function that the kernel has mapped into the process. stepClock replaces the beginning of that.
func stepClock(d time.Duration) error {
	maps, err := os.ReadFile("/proc/self/maps")
	must(err)
	at := regexp.MustCompile(`(?m)^(\w+)-(\w+) .*\[vdso\]$`).FindSubmatch(maps)
	if at == nil {
		return errors.New("there is no vDSO")
	}
	from, err := strconv.ParseInt(string(at[1]), 16, 64)
	must(err)
	to, err := strconv.ParseInt(string(at[2]), 16, 64)
	must(err)
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	image := make([]byte, to-from)
	_, err = memory.ReadAt(image, from)
	must(err)
	file, err := elf.NewFile(bytes.NewReader(image))
	must(err)
	symbols, err := file.DynamicSymbols()
	must(err)
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			// mov eax, 228 (clock_gettime); syscall; test edi, edi; jnz ret; add qword [rsi], d; ret: ret
			code := []byte("\xb8\xe4\x00\x00\x00\x0f\x05\x85\xff\x75\x07\x48\x81\x06")
			code = append(binary.LittleEndian.AppendUint32(code, uint32(d/time.Second)), 0xc3)
			_, err = memory.WriteAt(code, from+int64(s.Value))
			return err
		}
	}
	return errors.New("the vDSO has no clock")
}
