package legacy

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var (
	report    = simreport.NewReport("legacy")
	scenarios atomic.Int64 // number of scenarios run
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs broken connections
	goleak.VerifyTestMain(report.Around(counting{m}))
}

// counting adds the number of scenarios to the report.
type counting struct{ *testing.M }

// Run implements simreport.Runner.
func (c counting) Run() int {
	code := c.M.Run()
	report.Add("scenarios   %d, with older locks", scenarios.Load())
	return code
}

// ttl is the TTL of the locks.
const ttl = 30 * time.Second

// scenario is a sequence of steps in simulated time. It prints every step.
type scenario struct {
	*testing.T
	began time.Time

	mu      sync.Mutex // guards the fields below
	working []string   // processes that believe they hold the lock
	quiet   bool
}

// runScenario runs a scenario in a synctest bubble.
func runScenario(t *testing.T, schedule func(*scenario)) {
	synctest.Test(t, func(t *testing.T) {
		schedule(&scenario{T: t, began: time.Now()})
		scenarios.Add(1)
	})
}

func (p *scenario) say(who, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		fmt.Fprintf(p.Output(), "%10.3f s  %-7s %s\n", time.Since(p.began).Seconds(), who, fmt.Sprintf(format, args...))
	}
}

// advance lets time pass.
func (p *scenario) advance(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// works records that a process works because it believes that it holds the lock.
func (p *scenario) works(who *process) {
	p.working = append(p.working, who.name)
	p.say(who.name, "WORKS under the lock; working: %s", strings.Join(p.working, " and "))
}

// acquires asserts that a try succeeds; isRefused asserts that it is refused.
func (p *scenario) acquires(try func(context.Context) (bool, error)) {
	p.Helper()
	got, err := try(p.Context())
	require.NoError(p, err)
	require.True(p, got)
}

func (p *scenario) isRefused(try func(context.Context) (bool, error)) {
	p.Helper()
	got, err := try(p.Context())
	require.NoError(p, err)
	require.False(p, got)
}

// server is a simulated Redis server.
type server struct {
	*scenario
	name  string
	redis *miniredis.Miniredis

	mu    sync.Mutex // guards ahead
	ahead time.Duration
}

// server starts a server. A single server needs no name.
func (p *scenario) server(name string) *server {
	s := &server{scenario: p, name: name, redis: miniredis.NewMiniRedis()}
	s.redis.ClockTTL(true)
	p.Cleanup(s.redis.Close)
	return s
}

// updateClock sets the clock of the server before each request.
func (s *server) updateClock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redis.SetTime(time.Now().Add(s.ahead))
}

// stepClock moves the clock of the server.
func (s *server) stepClock(d time.Duration) {
	s.say(s.label(), "its clock is stepped by %v", d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// loseData deletes all data.
func (s *server) loseData(how string) {
	s.say(s.label(), "%s", how)
	s.redis.FlushAll()
}

// stepWallClock moves the wall clock of the machine on which the clients run.
func (p *scenario) stepWallClock(d time.Duration) {
	p.say("machine", "its wall clock is stepped by %v", d)
	seam.StepWall(d)
	p.Cleanup(func() { seam.StepWall(-d) })
}

func (s *server) label() string {
	if s.name == "" {
		return "Redis"
	}
	return s.name
}

// execute executes a delayed request.
func (s *server) execute(from *process, m message) {
	conn, err := s.redis.Dial()
	if !assert.NoError(s, err) {
		return
	}
	defer func() { assert.NoError(s, conn.Close()) }()
	s.updateClock()
	_, err = conn.Write(m.raw)
	assert.NoError(s, err)
	reply, err := readMessage(bufio.NewReader(conn))
	assert.NoError(s, err)
	from.say("%s  is executed now → %s, lost", s.format(m), shortenIDs(reply.text))
}

// format formats a request: for a script its name, its first key and its arguments.
// If there are several servers it adds the name of the server.
func (s *server) format(m message) string {
	parts := append([]string{strings.ToUpper(m.parts[0])}, m.parts[1:]...)
	if parts[0] == "EVAL" || parts[0] == "EVALSHA" {
		keys, _ := strconv.Atoi(parts[2])
		parts = append([]string{"script " + scriptName(parts[0], parts[1]), parts[3]}, parts[3+keys:]...)
	}
	text := shortenIDs(strings.Join(parts, " "))
	if s.name == "" {
		return text
	}
	return s.name + ": " + text
}

var clientID = regexp.MustCompile(`[A-Z2-7]{26}`)

// shortenIDs shortens the random ids of clients.
func shortenIDs(text string) string {
	return clientID.ReplaceAllStringFunc(text, func(id string) string { return id[:4] + "…" })
}

// scriptNames maps digests to the names of known scripts.
var scriptNames sync.Map

// scriptName returns the name of a script from its text or its digest. The text of an
// older lock begins with the name.
func scriptName(verb, script string) string {
	if verb == "EVALSHA" {
		if name, ok := scriptNames.Load(script); ok {
			return name.(string)
		}
		return script[:8]
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(script, "-- "), "\n")
	for header, ours := range ourScripts {
		if strings.Contains(script, header) {
			name = ours
		}
	}
	sum := sha1.Sum([]byte(script))
	scriptNames.Store(hex.EncodeToString(sum[:]), name)
	return name
}

// ourScripts maps the beginnings of Lua files of this module to their names.
var ourScripts = map[string]string{
	"-- Acquires a lock, or takes a place in its queue.":    "acquire",
	"-- Extends leases to their full TTL. It never creates": "renew",
	"-- Releases the lock of an owner and grants it":        "release",
}

// client returns a client of the server that does not retry.
func (p *process) client(s *server) *redis.Client {
	return p.retryingClient(s, -1)
}

// retryingClient returns a client that repeats a request when its connection breaks.
// The default of go-redis is three times.
func (p *process) retryingClient(s *server, times int) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr:                     s.label() + ":6379", // the Dialer ignores it
		Dialer:                   p.dial(s),
		MaxRetries:               times,
		ReadTimeout:              -1, // a paused process does not time out
		WriteTimeout:             -1,
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	p.Cleanup(func() { assert.NoError(p, rdb.Close()) })
	return rdb
}
