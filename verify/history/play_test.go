package history

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
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

	"github.com/leasewheel/leasewheel/verify/part"
)

var (
	report    = part.NewReport("history")
	schedules atomic.Int64 // that were performed
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis tells of connections that break
	goleak.VerifyTestMain(report.Around(counting{m}))
}

// counting adds to the report how many schedules the tests performed.
type counting struct{ *testing.M }

// Run implements part.Runner.
func (c counting) Run() int {
	code := c.M.Run()
	report.Add("schedules   %d, of older locks and of ours", schedules.Load())
	return code
}

// ttl is that of all locks here, unless it says otherwise.
const ttl = 30 * time.Second

// play is a schedule in virtual time. What happens in it is printed.
type play struct {
	*testing.T
	began time.Time

	mu     sync.Mutex // guards all below
	inside []string   // who believes that it has the lock
	quiet  bool
}

// perform runs a schedule.
func perform(t *testing.T, schedule func(*play)) {
	synctest.Test(t, func(t *testing.T) {
		schedule(&play{T: t, began: time.Now()})
		schedules.Add(1)
	})
}

func (p *play) say(who, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		fmt.Fprintf(p.Output(), "%10.3f s  %-7s %s\n", time.Since(p.began).Seconds(), who, fmt.Sprintf(format, args...))
	}
}

func (p *play) hush(quiet bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet = quiet
}

// after lets time pass.
func (p *play) after(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// enters says that a process has what it takes for the lock.
func (p *play) enters(who *process) {
	p.inside = append(p.inside, who.name)
	p.say(who.name, "WORKS under the lock; inside: %s", strings.Join(p.inside, " and "))
}

// got asserts that a try succeeds, and refused that it does not.
func (p *play) got(try func(context.Context) (bool, error)) {
	p.Helper()
	got, err := try(p.Context())
	require.NoError(p, err)
	require.True(p, got)
}

func (p *play) refused(try func(context.Context) (bool, error)) {
	p.Helper()
	got, err := try(p.Context())
	require.NoError(p, err)
	require.False(p, got)
}

// server is a Redis server.
type server struct {
	*play
	name  string
	redis *miniredis.Miniredis

	mu       sync.Mutex // guards all below
	ahead    time.Duration
	commands int
	down     bool
}

// server starts a server. One that is alone needs no name.
func (p *play) server(name string) *server {
	s := &server{play: p, name: name, redis: miniredis.NewMiniRedis()}
	s.redis.ClockTTL(true)
	p.Cleanup(s.redis.Close)
	return s
}

// tick sets the clock of the server, before each request.
func (s *server) tick(ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ours {
		s.commands++
	}
	s.redis.SetTime(time.Now().Add(s.ahead))
}

// steps moves the clock of the server.
func (s *server) steps(d time.Duration) {
	s.say(s.who(), "its clock is stepped by %v", d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// loses takes all data away.
func (s *server) loses(how string) {
	s.say(s.who(), "%s", how)
	s.redis.FlushAll()
}

// goesDown keeps all requests from the server, comesBack ends that.
func (s *server) goesDown()  { s.setDown(true, "is out of reach") }
func (s *server) comesBack() { s.setDown(false, "is back") }

func (s *server) setDown(down bool, how string) {
	s.say(s.who(), "%s", how)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *server) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// asked returns how many requests have arrived so far.
func (s *server) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commands
}

func (s *server) who() string {
	if s.name == "" {
		return "Redis"
	}
	return s.name
}

// execute executes a request that was late.
func (s *server) execute(from *process, m message) {
	conn, err := s.redis.Dial()
	if !assert.NoError(s, err) {
		return
	}
	defer func() { assert.NoError(s, conn.Close()) }()
	s.tick(true)
	_, err = conn.Write(m.raw)
	assert.NoError(s, err)
	reply, err := readMessage(bufio.NewReader(conn))
	assert.NoError(s, err)
	from.say("%s  is executed now → %s, which nobody hears", s.shown(m), short(reply.text))
}

// shown is a request as it is printed: of a script its name, its first key and its
// arguments. With several servers it names the one that is asked.
func (s *server) shown(m message) string {
	parts := append([]string{strings.ToUpper(m.parts[0])}, m.parts[1:]...)
	if parts[0] == "EVAL" || parts[0] == "EVALSHA" {
		keys, _ := strconv.Atoi(parts[2])
		parts = append([]string{"script " + scriptName(parts[0], parts[1]), parts[3]}, parts[3+keys:]...)
	}
	text := short(strings.Join(parts, " "))
	if s.name == "" {
		return text
	}
	return s.name + ": " + text
}

var clientID = regexp.MustCompile(`[A-Z2-7]{26}`)

// short cuts the random ids of clients.
func short(text string) string {
	return clientID.ReplaceAllStringFunc(text, func(id string) string { return id[:4] + "…" })
}

// scriptNames are the names of scripts by their digests, as far as they are known.
var scriptNames sync.Map

// scriptName names a script that is sent in full, or by its digest. The older ones
// begin with their name; ours are put together of files, of which the last names it.
func scriptName(verb, script string) string {
	if verb == "EVALSHA" {
		if name, ok := scriptNames.Load(script); ok {
			return name.(string)
		}
		return script[:8]
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(script, "-- "), "\n")
	for ours, text := range ourScripts() {
		if strings.HasSuffix(script, text) {
			name = ours
		}
	}
	sum := sha1.Sum([]byte(script))
	scriptNames.Store(hex.EncodeToString(sum[:]), name)
	return name
}

// ourScripts are the files that our scripts are made of, by their names.
var ourScripts = sync.OnceValue(func() map[string]string {
	scripts := make(map[string]string)
	files, _ := filepath.Glob("../../lock/redisstore/lua/*.lua")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		scripts[strings.TrimSuffix(filepath.Base(file), ".lua")] = string(text)
	}
	return scripts
})

// client returns a plain client of a server. It retries nothing.
func (p *process) client(s *server) *redis.Client {
	return p.clientThatRetries(s, -1)
}

// clientThatRetries sends a request again, so often, when its connection breaks:
// go-redis does so three times unless told otherwise.
func (p *process) clientThatRetries(s *server, times int) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr:                     s.who() + ":6379", // which the Dialer does not look at
		Dialer:                   p.dial(s),
		MaxRetries:               times,
		ReadTimeout:              -1, // a process that stands still does not time out
		WriteTimeout:             -1,
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	p.Cleanup(func() { assert.NoError(p, rdb.Close()) })
	return rdb
}
