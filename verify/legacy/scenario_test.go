package legacy

import (
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var report = simreport.NewReport("legacy")

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs broken connections
	goleak.VerifyTestMain(report.Around(m))
}

// ttl is the TTL of the locks.
const ttl = 30 * time.Second

// scenario is servers and processes in simulated time.
type scenario struct {
	*testing.T
	began time.Time
}

// server is a simulated Redis server.
type server struct {
	*scenario
	name  string
	redis *miniredis.Miniredis

	mu    sync.Mutex // guards ahead
	ahead time.Duration
}

// server starts a server.
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// format formats a request: for a script its name, its first key and its arguments.
func (m message) format() string {
	parts := append([]string{strings.ToUpper(m.parts[0])}, m.parts[1:]...)
	if parts[0] == "EVAL" || parts[0] == "EVALSHA" {
		keys, _ := strconv.Atoi(parts[2])
		parts = append([]string{"script " + scriptName(parts[0], parts[1]), parts[3]}, parts[3+keys:]...)
	}
	return shortenIDs(strings.Join(parts, " "))
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
	rdb := redis.NewClient(&redis.Options{
		Addr:                     s.name + ":6379", // the Dialer ignores it
		Dialer:                   p.dial(s),
		MaxRetries:               -1,
		ReadTimeout:              -1, // a paused process does not time out
		WriteTimeout:             -1,
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	p.Cleanup(func() { assert.NoError(p, rdb.Close()) })
	return rdb
}
