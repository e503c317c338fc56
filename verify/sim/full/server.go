// A Redis server: miniredis with a clock of its own.

package full

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	rediscommands "github.com/alicebob/miniredis/v2/server"

	"github.com/leasewheel/leasewheel/verify/sim"
)

// server is a Redis server: miniredis with its own clock. World.Mu guards it.
type server struct {
	id    int
	redis *miniredis.Miniredis
	start time.Time
	rate  float64
	step  time.Duration // the sum of the steps of its clock

	refuses   sim.Event // the error that it replies until then
	until     time.Time
	fullSince time.Time // the start of the latest time without memory
	down      time.Time // the server is down until then
	away      time.Time // the server stays down until then because it has lost data

	restarts int

	depth int  // the nesting of commands: a script calls others
	wrote bool // the running script has written
	said  []signal

	seen    map[string][]lease   // the holders at the latest look
	last    map[string]uint64    // key → the highest token granted
	known   map[sim.GrantID]bool // grants that were seen
	granted map[string]time.Time // key and owner → the end of the granted lease, even if it is lost
	astray  map[string]bool      // key and owner of grants of which the client does not learn

	names  map[string]string // digest → the name of a script that was sent in full
	copies []int             // databases with copies of older data, the oldest first

	digests map[string]string // digest of a script → digest of its mutant
}

func newServer(id int, start time.Time, rate float64) (*server, error) {
	s := &server{
		id: id, redis: miniredis.NewMiniRedis(), start: start, rate: rate,
		seen: map[string][]lease{}, last: map[string]uint64{}, known: map[sim.GrantID]bool{}, granted: map[string]time.Time{}, astray: map[string]bool{}, names: map[string]string{}, digests: map[string]string{},
	}
	conn, err := s.redis.Dial() // starts the server
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	s.setTime()
	s.redis.ClockTTL(true)
	s.redis.Server().SetPreHook(s.hook)
	return s, nil
}

// clock is the time of the server.
func (s *server) clock() time.Time {
	passed := time.Since(s.start)
	return s.start.Add(time.Duration(float64(passed)*s.rate) + s.step)
}

// setTime sets the time of miniredis.
func (s *server) setTime() { s.redis.SetTime(s.clock()) }

// mistake is a mutant of a script. Servers replace from by to in each script that they get. It
// does not change while schedules are played.
var mistake struct{ from, to string }

// execute runs a command. It returns the reply and the published messages.
func (s *server) execute(args []string) ([]byte, []signal) {
	s.setTime()
	s.depth, s.wrote, s.said = 0, false, nil
	switch verb := strings.ToLower(args[0]); verb {
	case "eval":
		s.names[digestOf(args[1])] = scriptIn(args[1])
		mistaken := strings.Replace(args[1], mistake.from, mistake.to, 1)
		s.digests[digestOf(args[1])] = digestOf(mistaken)
		args = slices.Replace(slices.Clone(args), 1, 2, mistaken)
	case "evalsha":
		if digest, known := s.digests[args[1]]; known {
			args = slices.Replace(slices.Clone(args), 1, 2, digest)
		}
	}
	answer := bytesOf(func(p *rediscommands.Peer) { s.redis.Server().Dispatch(p, args) })
	return answer, s.said
}

// bytesOf returns what a server writes to a client.
func bytesOf(write func(*rediscommands.Peer)) []byte {
	var out bytes.Buffer
	peer := rediscommands.NewPeer(bufio.NewWriter(&out))
	write(peer)
	peer.Flush()
	return out.Bytes()
}

// bulks returns an array of bulk strings, such as a message of a subscription.
func bulks(items ...string) []byte {
	return bytesOf(func(p *rediscommands.Peer) { p.WriteStrings(items) })
}

// unknown is the name of a script that a server does not know.
const unknown = "unknown"

// nameOf returns the name of the script that a command runs, or of the command.
func (s *server) nameOf(args []string) string {
	switch verb := strings.ToLower(args[0]); verb {
	case "eval":
		return scriptIn(args[1])
	case "evalsha":
		if name, known := s.names[args[1]]; known {
			return name
		}
		return unknown
	default:
		return verb
	}
}

// refusals are the error replies of a server that does not serve.
var refusals = map[sim.Event]string{
	loading:     "LOADING Redis is loading the dataset in memory",
	busy:        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	readOnly:    "READONLY You can't write against a read only replica.",
	outOfMemory: "OOM command not allowed when used memory > 'maxmemory'.",
}

var (
	writes  = []string{"SET", "DEL", "PEXPIRE", "PEXPIREAT", "LPOP", "RPUSH", "LPUSH", "LREM", "ZADD", "ZREM", "HSET", "HDEL", "SADD", "SREM", "INCR", "INCRBY", "HINCRBY", "EXPIRE", "ZREMRANGEBYSCORE", "RENAME", "UNLINK", "PERSIST"}
	enlarge = []string{"SET", "RPUSH", "LPUSH", "ZADD", "HSET", "SADD", "INCR", "INCRBY", "HINCRBY"}
)

// hook is called before every command, including the commands of scripts. It reports whether it
// has replied.
func (s *server) hook(c *rediscommands.Peer, cmd string, args ...string) bool {
	s.depth++
	refuses := s.refuses
	if !time.Now().Before(s.until) {
		refuses = ""
	}
	called := s.depth > 1
	switch {
	case cmd == "PUBLISH":
		s.said = append(s.said, signal{args[0], args[1]})
		c.WriteInt(0)
		return true
	case (refuses == loading || refuses == busy) && !called && cmd != "HELLO",
		refuses == readOnly && called && slices.Contains(writes, cmd),
		refuses == outOfMemory && called && !s.wrote && slices.Contains(enlarge, cmd):
		c.WriteError(refusals[refuses])
		return true
	}
	s.wrote = s.wrote || called && slices.Contains(writes, cmd)
	return false
}

// forgetScripts deletes the scripts, like SCRIPT FLUSH or a restart.
func (s *server) forgetScripts() { s.execute([]string{"SCRIPT", "FLUSH"}) }

// left returns all keys, and those without an expiry.
func (s *server) left() (all, endless []string) {
	s.setTime()
	db := s.redis.DB(0)
	for _, key := range db.Keys() {
		all = append(all, key)
		if db.TTL(key) <= 0 {
			endless = append(endless, key)
		}
	}
	return all, endless
}

// remember keeps a copy of the data for restore.
func (s *server) remember() {
	const most = 4
	db := len(s.copies) + 1
	if len(s.copies) == most {
		db, s.copies = s.copies[0], s.copies[1:]
	}
	s.copies = append(s.copies, db)
	s.copyData(0, db)
}

// restore falls back to a copy. Its keys expire when they would have expired, because copies do too.
func (s *server) restore(db int) { s.copyData(db, 0) }

// copyData replaces the data of a database by those of another one.
func (s *server) copyData(from, to int) {
	s.setTime()
	s.redis.DB(to).FlushDB()
	for _, key := range s.redis.DB(from).Keys() {
		_ = s.redis.Copy(from, key, to, key) // the key exists
	}
}
