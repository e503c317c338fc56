package legacy

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/verify/internal/simproc"
)

// played is what happened in a plan. All times are ms since its start.
type played struct {
	Plan       plan        `json:"plan"`
	Length     int         `json:"length"`
	TTL        int         `json:"ttl"`
	Lanes      []lane      `json:"lanes"`
	Messages   []note      `json:"messages"`
	Writes     []write     `json:"writes"`
	Violations []violation `json:"violations"`
}

// lane is the time line of a client or a server.
type lane struct {
	Name   string `json:"name"`
	Server bool   `json:"server"`
	Spans  []span `json:"spans"`
}

// span is a time in which the state of a lane does not change. A client waits or holds: it believes that it
// has the lock. A server has the lock for a client.
type span struct {
	State string `json:"state"` // "waits", "holds", "crashed", or the client that the server has
	From  int    `json:"from"`
	To    int    `json:"to"`
}

// note is a request of a client, with its answer.
type note struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Text   string `json:"text"`
	Answer string `json:"answer"`
	Sent   int    `json:"sent"`
	At     int    `json:"at"`   // the instant at which the server executed it, or -1
	Back   int    `json:"back"` // the instant at which the answer arrived, or -1

	own   bool // go-redis sent it by itself: it takes no time and is not drawn
	hello bool // it opens a connection, which go-redis does under a mutex: it meets no fault
}

// write is a write at the resource.
type write struct {
	Who      string `json:"who"`
	Sent     int    `json:"sent"`
	At       int    `json:"at"`
	Token    uint64 `json:"token"`
	Accepted bool   `json:"accepted"`
	Wrong    bool   `json:"wrong"` // accepted after a write of a client that got the lock later
}

// violation is a broken promise.
type violation struct {
	Kind violationKind `json:"kind"`
	At   int           `json:"at"`
	Text string        `json:"text"`
}

type violationKind string

const (
	twoHolders violationKind = "two"   // two clients believe that they hold the lock
	wrongWrite violationKind = "write" // the resource took a write that came too late
	stuckLock  violationKind = "stuck" // nobody holds the lock, and nobody can get it
)

// breaksPromise reports whether the lock broke a promise. This module promises one believing holder unless
// a server loses its data, and writes in order only to resources that check tokens.
func (r played) breaksPromise() bool {
	rules := protocolOf(r.Plan.Protocol)
	return slices.ContainsFunc(r.Violations, func(v violation) bool {
		switch {
		case !rules.Ours:
			return true
		case v.Kind == twoHolders:
			return !r.Plan.losesData()
		case v.Kind == wrongWrite:
			return rules.Fenced
		}
		return true
	})
}

// contender is the lock of one client.
type contender interface {
	lock(ctx context.Context) (token uint64, ok bool) // blocks until it has the lock, or ctx ends
	believes() bool                                   // after lock: the client believes that it holds the lock
	asks() bool                                       // what the client believes if it asks before a write
	gone() <-chan struct{}                            // closed when the client is told of a loss; nil: it is never told
	unlock(ctx context.Context)
}

// player plays a plan.
type player struct {
	*scenario
	plan   plan
	rules  *protocol
	redis  []*server
	actors []*actor
	work   sync.WaitGroup // writes on their way
	healed atomic.Bool    // all faults are over

	mu      sync.Mutex // guards the fields below, and those of actors that say so
	result  played
	open    []span // of each lane, its state now; From is its start
	grants  int
	order   map[string]int     // token or client → its place in the order of grants
	owners  map[string]string  // id of a client of this module → the client
	highest int                // the highest place of an accepted write
	fence   uint64             // the highest token of an accepted write
	taken   map[*server]string // the last client that wrote the lock
	over    bool
}

// actor is a client of a plan.
type actor struct {
	*process
	player *player
	number int
	pauser *simproc.Pauser
	lock   contender
	ctx    context.Context // ends with the plan, and with the client
	end    context.CancelFunc

	state string // "", "waits", "holds" or "crashed"; the mutex of the player guards it
}

// playPlan plays a plan in a bubble of its own. Without drawn it is faster, and the times of spans are less exact.
func playPlan(t *testing.T, p plan, drawn bool) (result played) {
	synctest.Test(t, func(t *testing.T) {
		pl := &player{
			scenario: &scenario{t, time.Now()}, plan: p, rules: protocolOf(p.Protocol),
			order: map[string]int{}, owners: map[string]string{}, taken: map[*server]string{},
		}
		pl.result = played{
			Plan: p, Length: toMS(planLength), TTL: toMS(ttl),
			Messages: []note{}, Writes: []write{}, Violations: []violation{},
		}
		result = pl.play(drawn)
	})
	return result
}

func toMS(d time.Duration) int { return int(d / time.Millisecond) }

func (pl *player) now() time.Duration { return time.Since(pl.began) }

// play plays the plan.
func (pl *player) play(drawn bool) played {
	for _, name := range pl.rules.servers() {
		pl.redis = append(pl.redis, pl.server(name))
	}
	for i, name := range clientNames {
		a := &actor{process: pl.process(name), player: pl, number: i, pauser: simproc.NewPauser(uint64(i))}
		a.hooks = a
		pl.actors = append(pl.actors, a)
	}
	for _, a := range pl.actors {
		a.lock = pl.rules.open(a)
	}
	pl.open = make([]span, len(pl.actors)+len(pl.redis))

	ctx, end := context.WithCancel(pl.Context())
	defer end()
	for _, a := range pl.actors {
		a.ctx, a.end = context.WithCancel(ctx)
		defer a.end()
	}
	var running sync.WaitGroup
	for _, f := range pl.plan.Faults {
		running.Go(func() { pl.inject(ctx, f) })
	}
	for _, a := range pl.actors {
		running.Go(func() { a.run(a.ctx) })
	}
	every := 100 * time.Millisecond
	if !drawn {
		every = time.Second
	}
	for pl.now() < planLength {
		time.Sleep(every)
		pl.observe()
	}
	pl.finish()
	end()
	running.Wait()
	pl.work.Wait()
	pl.probe()
	return pl.result
}

// inject injects a fault at its time. Those of messages have no instant: see sends.
func (pl *player) inject(ctx context.Context, f fault) {
	select {
	case <-time.After(f.at()):
	case <-ctx.Done():
		return
	}
	i := slices.Index(clientNames, f.On)
	s := slices.Index(pl.rules.servers(), f.On)
	switch {
	case f.Kind == pauseClient:
		pl.actors[i].pauser.Pause(f.length())
	case f.Kind == crashClient:
		pl.actors[i].end() // go-redis would repeat the dial of a subscription forever
		pl.actors[i].kill()
		pl.set(pl.actors[i], "crashed")
	case f.Kind == stepClock && i >= 0 && pl.rules.Ours:
		seam.StepWall(f.length()) // of the machine: all clients share it
		pl.Cleanup(func() { seam.StepWall(-f.length()) })
	case f.Kind == stepClock && i >= 0: // older locks have no clock
	case f.Kind == stepClock:
		pl.redis[s].stepClock(f.length())
	case f.Kind == failOver:
		pl.redis[s].redis.FlushAll()
	}
	pl.observe()
}

// suffers reports whether a fault of a kind is active now.
func (pl *player) suffers(kind faultKind, on string) bool {
	now := pl.now()
	return !pl.healed.Load() &&
		slices.ContainsFunc(pl.plan.Faults, func(f fault) bool { return f.Kind == kind && f.On == on && f.has(now) })
}

// run asks for the lock, works under it and unlocks it.
func (a *actor) run(ctx context.Context) {
	pl := a.player
	a.sleep(ctx, time.Duration(a.number)*time.Second)
	pl.set(a, "waits")
	token, ok := a.lock.lock(ctx)
	a.await()
	if !ok || a.isDead() {
		return
	}
	order := pl.granted(a, token)
	pl.set(a, "holds")
	for n := 0; n < pl.rules.writes && ctx.Err() == nil && !a.isDead() && a.lock.asks(); n++ {
		pl.write(a, token, order)
		a.rest(ctx)
	}
	pl.set(a, "")
	if !a.isDead() {
		a.lock.unlock(context.WithoutCancel(ctx))
		pl.observe()
	}
}

// rest is the time between two writes. It ends when the client is told of a loss.
func (a *actor) rest(ctx context.Context) {
	select {
	case <-time.After(2 * time.Second):
	case <-a.lock.gone():
	case <-ctx.Done():
	}
	a.await()
}

// sleep waits, and then for the end of a pause.
func (a *actor) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	a.await()
}

// await returns when the client is not paused.
func (a *actor) await() { a.pauser.Await(uint64(a.number)) }

// delay returns how long a message takes in one direction. Clients differ, so that their messages do not
// arrive at one instant.
func (a *actor) delay() time.Duration {
	d := time.Duration(20+3*a.number) * time.Millisecond
	if a.player.suffers(slowLink, a.name) {
		d += slowness
	}
	return d
}

// write sends a write to the resource.
func (pl *player) write(a *actor, token uint64, order int) {
	sent := pl.now()
	pl.work.Go(func() {
		time.Sleep(a.delay())
		pl.mu.Lock()
		defer pl.mu.Unlock()
		if pl.over {
			return
		}
		w := write{Who: a.name, Sent: toMS(sent), At: toMS(pl.now()), Token: token}
		w.Accepted = !pl.rules.Fenced || token >= pl.fence
		if w.Accepted {
			w.Wrong = order < pl.highest
			pl.highest, pl.fence = max(pl.highest, order), max(pl.fence, token)
		}
		pl.result.Writes = append(pl.result.Writes, w)
		if w.Wrong {
			pl.violated(wrongWrite, "the resource took a write of %s, which got the lock earlier than the writer before", a.name)
		}
	})
}

// granted returns the place of a grant in the order of grants. The order of tokens counts by the instants at
// which the server had them, not by their values.
func (pl *player) granted(a *actor, token uint64) int {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	key := a.name
	if token > 0 {
		key = fmt.Sprint(token)
	}
	return pl.orderOf(key)
}

// orderOf returns the place of a grant. The caller holds the mutex.
func (pl *player) orderOf(key string) int {
	if pl.order[key] == 0 {
		pl.grants++
		pl.order[key] = pl.grants
	}
	return pl.order[key]
}

func (pl *player) set(a *actor, state string) {
	pl.mu.Lock()
	if a.state != "crashed" {
		a.state = state
	}
	pl.mu.Unlock()
	pl.observe()
}

// observe compares what the servers have with what the clients believe.
func (pl *player) observe() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.over {
		return
	}
	var believers []string
	for i, a := range pl.actors {
		state := a.state
		switch {
		case state != "holds":
		case a.lock.believes():
			believers = append(believers, a.name)
		default:
			state = ""
		}
		pl.turn(i, state)
	}
	for i, s := range pl.redis {
		pl.turn(len(pl.actors)+i, pl.holderAt(s))
	}
	if len(believers) > 1 {
		pl.violated(twoHolders, "%s believe that they hold the lock", strings.Join(believers, " and "))
	}
	pl.toldLate(believers)
}

// toldLate checks that the holder of a server is the only client that believes, if the protocol promises it.
// The caller holds the mutex.
func (pl *player) toldLate(believers []string) {
	if !pl.rules.Ours {
		return
	}
	has := pl.open[len(pl.actors)].State
	for _, name := range believers {
		if has != "" && has != name {
			pl.violated(twoHolders, "the server has the lock for %s, and %s is not told", has, name)
		}
	}
}

// turn begins a new span if the state of a lane has changed. The caller holds the mutex.
func (pl *player) turn(i int, state string) {
	at := &pl.open[i]
	if at.State == state {
		return
	}
	pl.endSpan(i)
	*at = span{State: state, From: toMS(pl.now())}
}

func (pl *player) endSpan(i int) {
	for len(pl.result.Lanes) < len(pl.open) {
		n := len(pl.result.Lanes)
		name := append(slices.Clone(clientNames), pl.rules.servers()...)[n]
		pl.result.Lanes = append(pl.result.Lanes, lane{Name: name, Server: n >= len(pl.actors)})
	}
	s := pl.open[i]
	s.To = toMS(pl.now())
	if s.State != "" && s.To > s.From {
		pl.result.Lanes[i].Spans = append(pl.result.Lanes[i].Spans, s)
	}
}

// violated records a violation once. The caller holds the mutex.
func (pl *player) violated(kind violationKind, format string, args ...any) {
	v := violation{kind, toMS(pl.now()), fmt.Sprintf(format, args...)}
	if !slices.ContainsFunc(pl.result.Violations, func(o violation) bool { return o.Kind == kind && o.Text == v.Text }) {
		pl.result.Violations = append(pl.result.Violations, v)
	}
}

// holderAt returns the client for which a server has the lock, or "". If the value does not say, it is the
// client that was the last to write it. The caller holds the mutex.
func (pl *player) holderAt(s *server) string {
	s.updateClock()
	const key = "lock"
	if pl.rules.Ours {
		value, _ := s.redis.Get("lw:{" + key + "}")
		owner, token, _ := strings.Cut(value, " ")
		if value == "" {
			return ""
		}
		pl.orderOf(token)
		return cmp.Or(pl.owners[ownerID.FindString(owner)], "nobody")
	}
	if fields, err := s.redis.HKeys(key); err == nil && len(fields) > 0 {
		return fields[0][:1]
	}
	value, err := s.redis.Get(key)
	switch {
	case err != nil:
		return ""
	case strings.HasPrefix(value, "of "):
		return strings.TrimPrefix(value, "of ")
	}
	return pl.taken[s]
}

// finish ends what is recorded, and all faults.
func (pl *player) finish() {
	pl.observe()
	pl.mu.Lock()
	for i := range pl.open {
		pl.endSpan(i)
	}
	pl.over = true
	pl.mu.Unlock()
	pl.healed.Store(true)
}

// probe checks that a new client can get the lock when all is over.
func (pl *player) probe() {
	a := &actor{process: pl.process("D"), player: pl, number: 3, pauser: simproc.NewPauser(3)}
	a.hooks = a
	ctx, cancel := context.WithTimeout(pl.Context(), 4*ttl)
	defer cancel()
	c := pl.rules.open(a)
	if _, ok := c.lock(ctx); ok {
		c.unlock(ctx)
		return
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.violated(stuckLock, "nobody holds the lock, and %v later nobody can get it", 4*ttl)
}

// ownerID is the id of a client of this module, with which the names of its owners begin.
var ownerID = regexp.MustCompile(`^[A-Z2-7]{13}:`)

var _ hooks = (*actor)(nil)

// sends implements hooks: it returns when the request arrives at the server, with its fate.
func (a *actor) sends(s *server, m message) (fate, *note) {
	pl := a.player
	n := &note{From: a.name, To: s.name, At: -1, Back: -1, own: !m.isFromUser(), hello: strings.EqualFold(m.parts[0], "HELLO")}
	if n.hello {
		return delivered, n
	}
	a.await()
	n.Sent = toMS(pl.now())
	n.Text = m.format()
	pl.mu.Lock()
	for _, part := range m.parts {
		if id := ownerID.FindString(part); id != "" {
			pl.owners[id] = a.name
		}
	}
	lostNow := pl.suffers(loseRequest, a.name) || pl.suffers(cutOff, a.name)
	pl.mu.Unlock()
	if !n.own {
		time.Sleep(a.delay())
	}
	f := delivered
	switch {
	case a.isDead():
		f = crashed
	case lostNow, pl.suffers(cutOff, a.name), pl.suffers(cutOff, s.name):
		f = lost
	case pl.suffers(loseAnswer, a.name):
		f = replyLost
	}
	if f == lost {
		pl.record(n)
	}
	return f, n
}

// executed implements hooks.
func (a *actor) executed(s *server, n *note, answer message) {
	pl := a.player
	n.At, n.Answer = toMS(pl.now()), shortenIDs(answer.text)
	pl.mu.Lock()
	verb, _, _ := strings.Cut(n.Text, " ")
	if slices.Contains([]string{"SET", "SETNX"}, verb) && answer.text != "0" && answer.text != "nil" {
		pl.taken[s] = a.name
	}
	pl.mu.Unlock()
	pl.observe()
}

// receives implements hooks: it returns when the answer arrives at the client, or false if it is lost.
func (a *actor) receives(s *server, n *note, isLost bool) bool {
	pl := a.player
	if n != nil && n.hello {
		return true
	}
	isLost = isLost || pl.suffers(cutOff, a.name) || pl.suffers(cutOff, s.name)
	if !isLost && (n == nil || !n.own) {
		time.Sleep(a.delay())
	}
	a.await()
	if n != nil {
		if !isLost && !a.isDead() {
			n.Back = toMS(pl.now())
		}
		pl.record(n)
	}
	return !isLost
}

func (pl *player) record(n *note) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if !pl.over && !n.own && len(pl.result.Messages) < maxMessages {
		pl.result.Messages = append(pl.result.Messages, *n)
	}
}
