package check

import (
	"context"
	"encoding/base64"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/check/internal/testnats"
	"github.com/leasewheel/leasewheel/lock/natsstore/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestMain(m *testing.M) {
	testnats.Main()
	testproxy.ServeNames()
	goleak.VerifyTestMain(m)
}

// open returns a store on a connection of its own.
func open(t *testing.T, s *server.Server) driver.Store {
	t.Helper()
	js := testnats.Connect(t, s)
	require.NoError(t, natsstore.CreateStream(t.Context(), js, nil))
	return openOn(t, js, nil)
}

// openOn returns a store like a connection, which is closed at the end of the test.
func openOn(t *testing.T, js jetstream.JetStream, o *natsstore.Options) *natsstore.Store {
	t.Helper()
	store, err := natsstore.New(t.Context(), js, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func subject(key string) string {
	return "leasewheel.k." + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// waiters returns the number of subscriptions to the releases of a lock.
func waiters(t *testing.T, at *server.Server, s driver.Store, key string) int {
	t.Helper()
	require.NoError(t, seam.Of(s).Conn.Flush())
	name := "leasewheel.w." + base64.RawURLEncoding.EncodeToString([]byte(key))
	of, err := at.Subsz(&server.SubszOptions{Subscriptions: true, Test: name, Limit: 100_000})
	require.NoError(t, err)
	n := 0
	for _, sub := range of.Subs {
		if sub.Subject == name {
			n++
		}
	}
	return n
}

// The stores of the contract have the documented rights and no others.
func TestContract(t *testing.T) {
	t.Parallel()
	s, js := startWithUsers(t, "nothing")
	foreign := []byte("not a lock")
	newStore := func(t *testing.T) driver.Store {
		t.Helper()
		return openOn(t, testnats.Connect(t, s, nats.UserInfo("without nothing", "p")), nil)
	}
	locktest.TestStore(t, locktest.Config{
		New:      newStore,
		Another:  func(t *testing.T, _ driver.Store) driver.Store { return newStore(t) },
		TTL:      3 * time.Second,
		Explains: true,
		Waiting:  func(t *testing.T, of driver.Store, key string) int { return waiters(t, s, of, key) },
		Delete: func(t *testing.T, _ driver.Store, key string) {
			stream, err := js.Stream(t.Context(), "LEASEWHEEL")
			require.NoError(t, err)
			m, err := stream.GetLastMsgForSubject(t.Context(), subject(key))
			require.NoError(t, err)
			require.NoError(t, stream.DeleteMsg(t.Context(), m.Sequence))
		},
		Spoil: func(t *testing.T, _ driver.Store, key string) {
			_, err := js.Publish(t.Context(), subject(key), foreign)
			require.NoError(t, err)
		},
		Spoiled: func(t *testing.T, _ driver.Store, key string) bool {
			stream, err := js.Stream(t.Context(), "LEASEWHEEL")
			require.NoError(t, err)
			m, err := stream.GetLastMsgForSubject(t.Context(), subject(key))
			return err == nil && assert.ObjectsAreEqual(foreign, m.Data)
		},
	})
}

// harmless are settings with which locks are safe, whatever their values are.
var harmless = map[string]func(*jetstream.StreamConfig){
	"Name":         func(*jetstream.StreamConfig) {}, // Options.Stream
	"Description":  func(c *jetstream.StreamConfig) { c.Description = "" },
	"MaxConsumers": func(c *jetstream.StreamConfig) { c.MaxConsumers = 5 },
	"Discard":      func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs, c.MaxBytes = jetstream.DiscardNew, 10, 10_000 },
	"Replicas":     func(*jetstream.StreamConfig) {},
	"Placement":    func(*jetstream.StreamConfig) {},
	"Compression":  func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression },
	"RePublish": func(c *jetstream.StreamConfig) {
		c.RePublish = &jetstream.RePublish{Source: "leasewheel.k.*", Destination: "copy.{{wildcard(1)}}"}
	},
	"MirrorDirect":       func(*jetstream.StreamConfig) {}, // of a mirror
	"DenyDelete":         func(c *jetstream.StreamConfig) { c.DenyDelete = true },
	"DenyPurge":          func(c *jetstream.StreamConfig) { c.DenyPurge = false },
	"AllowRollup":        func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = true, false },
	"ConsumerLimits":     func(c *jetstream.StreamConfig) { c.ConsumerLimits.MaxAckPending = 5 },
	"AllowAtomicPublish": func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true },
	"AllowMsgSchedules":  func(c *jetstream.StreamConfig) { c.AllowMsgSchedules, c.AllowRollup, c.DenyPurge = true, true, false },
	"AllowBatchPublish":  func(c *jetstream.StreamConfig) { c.AllowBatchPublish = true },
	"Metadata":           func(c *jetstream.StreamConfig) { c.Metadata = map[string]string{"a": "b"} },
	"Template":           func(*jetstream.StreamConfig) {},
}

// unsafe are settings that New refuses.
var unsafe = map[string]func(*jetstream.StreamConfig){
	"Subjects": func(c *jetstream.StreamConfig) { c.Subjects = c.Subjects[:1] },
	"Mirror":   func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{Name: "a"} },
	"Sources":  func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "a"}} },
	"FirstSeq": func(c *jetstream.StreamConfig) { c.FirstSeq = 5 },
	"SubjectTransform": func(c *jetstream.StreamConfig) {
		c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "leasewheel.k.*", Destination: "leasewheel.x.{{wildcard(1)}}"}
	},
	"Sealed":                 func(c *jetstream.StreamConfig) { c.Sealed = true },
	"Storage":                func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
	"PersistMode":            func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
	"Retention":              func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
	"NoAck":                  func(c *jetstream.StreamConfig) { c.NoAck = true },
	"AllowMsgTTL":            func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false },
	"AllowMsgCounter":        func(c *jetstream.StreamConfig) { c.AllowMsgCounter = true },
	"AllowDirect":            func(c *jetstream.StreamConfig) { c.AllowDirect = true },
	"SubjectDeleteMarkerTTL": func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = 10 * time.Second },
	"MaxMsgsPerSubject":      func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
	"DiscardNewPerSubject":   func(c *jetstream.StreamConfig) { c.Discard, c.DiscardNewPerSubject = jetstream.DiscardNew, true },
	"MaxMsgSize":             func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 },
	"MaxAge":                 func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
	"MaxMsgs":                func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
	"MaxBytes":               func(c *jetstream.StreamConfig) { c.MaxBytes = 10_000 },
	"Duplicates":             func(c *jetstream.StreamConfig) { c.Duplicates = time.Second },
}

// createOther creates a stream that is no store. While there is one, streams can be deleted and created:
// the server removes the folder of all streams when it is empty, also below a stream that it creates.
func createOther(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}})
	require.NoError(t, err)
}

// Each setting that the client of NATS knows is one of the two kinds.
func TestSettingsOfTheStream(t *testing.T) {
	at := testnats.Start(t)
	js := testnats.Connect(t, at)
	_, err := natsstore.New(t.Context(), js, nil)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	require.ErrorContains(t, err, "CreateStream creates it")
	require.NoError(t, natsstore.CreateStream(t.Context(), js, nil))
	safe, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	// Each stream that follows has a name of its own: the server removes the files of a deleted stream
	// later, and in a folder that has the name of the stream.
	createOther(t, js)
	require.NoError(t, js.DeleteStream(t.Context(), stream))
	for field := range reflect.TypeFor[jetstream.StreamConfig]().Fields() {
		setting := field.Name
		t.Run(setting, func(t *testing.T) {
			change, isUnsafe := unsafe[setting]
			if !isUnsafe {
				change = harmless[setting]
			}
			require.NotNil(t, change, "a new setting")
			config := safe.CachedInfo().Config
			change(&config)
			err := seam.Check(config)
			if isUnsafe {
				require.ErrorContains(t, err, setting+" is ")
				return
			}
			require.NoError(t, err)
			config.Name = "WITH_" + setting
			_, err = js.CreateStream(t.Context(), config)
			if err != nil && strings.Contains(err.Error(), "unknown field") {
				t.Skip("a later version has this setting:", err)
			}
			require.NoError(t, err)
			defer func() { require.NoError(t, js.DeleteStream(t.Context(), config.Name)) }()
			s := openOn(t, js, &natsstore.Options{Stream: config.Name})
			l, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour})
			require.NoError(t, err)
			out := make([]renewal.Outcome, 1)
			require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out))
			assert.Equal(t, renewal.Renewed, out[0])
			l.Unanswered = true
			require.NoError(t, s.Release(t.Context(), l))
		})
	}
	config := safe.CachedInfo().Config
	config.Name = "WITH_DELETE_MARKERS"
	unsafe["SubjectDeleteMarkerTTL"](&config)
	config.AllowRollup, config.DenyPurge = true, false // the server insists
	_, err = js.CreateStream(t.Context(), config)
	require.NoError(t, err)
	_, err = natsstore.New(t.Context(), js, &natsstore.Options{Stream: config.Name})
	require.EqualError(t, err, "natsstore: stream WITH_DELETE_MARKERS: SubjectDeleteMarkerTTL is 10s and must be 0, "+
		"because a lease that ends would leave a message that is not a lock; see CreateStream")
}

// rights are what the documentation of the package permits a user of locks.
var (
	mayPublish = []string{
		"leasewheel.k.*", "leasewheel.x.*", "leasewheel.w.*", "$JS.API.STREAM.INFO.LEASEWHEEL", "$JS.API.STREAM.MSG.GET.LEASEWHEEL",
		"$JS.API.CONSUMER.CREATE.LEASEWHEEL.>", "$JS.API.CONSUMER.MSG.NEXT.LEASEWHEEL.>", "$JS.API.CONSUMER.DELETE.LEASEWHEEL.>",
	}
	maySubscribe = []string{"leasewheel.w.*", "_INBOX.>"}
)

// user returns a user that has all rights but one.
func user(without string) *server.User {
	all := func(rights []string) *server.SubjectPermission {
		return &server.SubjectPermission{Allow: slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == without })}
	}
	return &server.User{Username: "without " + without, Password: "p", Permissions: &server.Permissions{Publish: all(mayPublish), Subscribe: all(maySubscribe)}}
}

// startWithUsers starts a server with a stream, an administrator, and users that lack one right each.
func startWithUsers(t *testing.T, without ...string) (s *server.Server, admin jetstream.JetStream) {
	t.Helper()
	users := []*server.User{{Username: "admin", Password: "p"}}
	for _, right := range without {
		users = append(users, user(right))
	}
	s = testnats.Start(t, func(o *server.Options) { o.Users = users })
	admin = testnats.Connect(t, s, nats.UserInfo("admin", "p"))
	require.NoError(t, natsstore.CreateStream(t.Context(), admin, nil))
	return s, admin
}

func TestNewNamesAMissingRight(t *testing.T) {
	needed := append(slices.Clone(mayPublish[:5]), maySubscribe...)
	at, admin := startWithUsers(t, needed...)
	for _, right := range needed {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			js := testnats.Connect(t, at, nats.UserInfo("without "+right, "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := natsstore.New(ctx, js, nil)
			require.ErrorContains(t, err, "natsstore: stream LEASEWHEEL: ")
			require.ErrorIs(t, err, nats.ErrPermissionViolation)
			assert.ErrorContains(t, err, strings.TrimRight(right, "*>"))
		})
	}
	of, err := admin.Stream(t.Context(), stream)
	require.NoError(t, err)
	assert.Zero(t, of.CachedInfo().State.Msgs, "New leaves no message")
}

// A stream that is created again has no sequence that an old holder knows.
func TestAnOldHolderAfterTheStreamWasCreatedAgain(t *testing.T) {
	at := testnats.Start(t)
	s, js := open(t, at), testnats.Connect(t, at)
	old, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour})
	require.NoError(t, err)
	createOther(t, js)
	require.NoError(t, js.DeleteStream(t.Context(), stream))
	require.NoError(t, natsstore.CreateStream(t.Context(), js, nil))
	l, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "b:1", TTL: time.Hour})
	require.NoError(t, err)
	assert.Greater(t, l.Token, old.Token)
	out := make([]renewal.Outcome, 2)
	require.NoError(t, s.Renew(t.Context(), []driver.Lease{old, l}, out))
	assert.Equal(t, []renewal.Outcome{renewal.LostTaken, renewal.Renewed}, out)

	before, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	require.NoError(t, natsstore.CreateStream(t.Context(), js, nil))
	after, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	assert.Equal(t, before.CachedInfo().Config.FirstSeq, after.CachedInfo().Config.FirstSeq, "a stream that exists keeps its sequences")
}

// The program fills, closes or loses its connection, and the store has locks.
func TestAConnectionOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(nc *nats.Conn, conn *filled, link *testproxy.Proxy){
		"the program fills its connection": func(nc *nats.Conn, conn *filled, _ *testproxy.Proxy) {
			conn.stuck.Store(true)
			go func() { _ = nc.Publish("other", make([]byte, 1<<20)) }()
			<-conn.writes
		},
		"the program closes its connection": func(nc *nats.Conn, _ *filled, _ *testproxy.Proxy) { nc.Close() },
		"the connections break":             func(_ *nats.Conn, _ *filled, link *testproxy.Proxy) { link.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := testnats.Start(t)
			require.NoError(t, natsstore.CreateStream(t.Context(), testnats.Connect(t, at), nil))
			link, err := testproxy.New("tcp", at.Addr().String())
			require.NoError(t, err)
			t.Cleanup(link.Close)
			conn := &filled{writes: make(chan struct{}), free: make(chan struct{})}
			var nc *nats.Conn
			nc, err = nats.Connect("nats://"+link.Addr(), nats.NoReconnect(), nats.SetCustomDialer(conn),
				nats.ClosedHandler(func(c *nats.Conn) {
					assert.Same(t, nc, c, "functions of the program are called for its connection only")
				}))
			require.NoError(t, err)
			t.Cleanup(nc.Close)
			t.Cleanup(func() { close(conn.free) })
			js, err := jetstream.New(nc)
			require.NoError(t, err)
			clients := at.NumClients()
			s := openOn(t, js, nil)
			assert.LessOrEqual(t, seam.Of(s).Conn.Opts.PingInterval, 5*time.Second, "a silent server is noticed soon")
			use(nc, conn, link)
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := s.Acquire(ctx, driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour})
				return err == nil
			}, patience, 10*time.Millisecond)
			require.NoError(t, s.Close())
			require.Eventually(t, func() bool { return at.NumClients() <= clients }, patience, time.Millisecond)
			_, err = s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour})
			require.ErrorIs(t, err, driver.ErrStoreClosed)
		})
	}
}

// filled dials connections. The first one takes no bytes once stuck is set, until free is closed.
type filled struct {
	net.Conn
	stuck  atomic.Bool
	writes chan struct{} // closed when a write is stuck
	free   chan struct{}
}

func (f *filled) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil || f.Conn != nil {
		return c, err
	}
	f.Conn = c
	return f, nil
}

func (f *filled) Write(p []byte) (int, error) {
	if f.stuck.Swap(false) {
		close(f.writes)
		<-f.free
	}
	return f.Conn.Write(p)
}

// A server gets another address, and one name is unknown.
func TestNamesOfServers(t *testing.T) {
	t.Parallel()
	for name, move := range testproxy.Moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := testnats.Start(t)
			require.NoError(t, natsstore.CreateStream(t.Context(), testnats.Connect(t, at), nil))
			moved := testproxy.NewMoved(t, at.Addr().String())
			nc, err := nats.Connect("nats://"+testproxy.NewName()+":1,nats://"+moved.Addr(), nats.IgnoreDiscoveredServers())
			require.NoError(t, err)
			t.Cleanup(nc.Close)
			js, err := jetstream.New(nc)
			require.NoError(t, err)
			s := openOn(t, js, nil)
			l, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour})
			require.NoError(t, err)
			events := make(chan renewal.Event, 10)
			s.ReportEvents(func(e renewal.Event) { events <- e })
			move(moved)
			out := make([]renewal.Outcome, 1)
			require.Eventually(t, func() bool { return s.Renew(t.Context(), []driver.Lease{l}, out) == nil }, patience, 10*time.Millisecond)
			assert.Equal(t, renewal.Renewed, out[0])
			select {
			case e := <-events:
				assert.Equal(t, renewal.EventVerify, e.Kind)
			case <-time.After(patience):
				require.Fail(t, "the new connection is not reported")
			}
		})
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	t.Parallel()
	at := testnats.Start(t)
	js := testnats.Connect(t, at)
	s := open(t, at)
	require.NoError(t, js.DeleteStream(t.Context(), stream))
	_, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour})
	require.ErrorContains(t, err, "the stream LEASEWHEEL is missing, which CreateStream creates")
	with, err := jetstream.NewWithDomain(js.Conn(), "other")
	require.NoError(t, err)
	_, err = natsstore.New(t.Context(), with, nil)
	require.ErrorContains(t, err, "the server has no JetStream, or not for this account and domain")
	require.ErrorContains(t, natsstore.CreateStream(t.Context(), with, nil), "the server has no JetStream")
	address := at.Addr().String()
	at.Shutdown()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = natsstore.New(ctx, js, nil)
	require.ErrorContains(t, err, "connect to "+address)
	require.ErrorIs(t, err, nats.ErrNoServers)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
