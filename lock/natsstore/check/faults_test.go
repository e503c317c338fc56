package check

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/check/internal/testnats"
	"github.com/leasewheel/leasewheel/verify/histories"
)

const (
	faultTTL = 3 * time.Second
	stream   = "LEASEWHEEL" // of a store without options
	patience = time.Minute  // until a state is reached that must come
)

// newClient returns a client with a connection of its own.
func newClient(t *testing.T, p *testnats.Process) *lock.Client {
	t.Helper()
	return clientOn(t, p.Connect())
}

func clientOn(t *testing.T, js jetstream.JetStream) *lock.Client {
	t.Helper()
	var store *natsstore.Store
	require.Eventually(t, func() (ok bool) {
		var err error
		store, err = natsstore.New(t.Context(), js, nil)
		return err == nil
	}, patience, 10*time.Millisecond, "the stream has a leader")
	t.Cleanup(func() { _ = store.Close() })
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: faultTTL}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), faultTTL)
		defer cancel()
		_ = client.Close(ctx) // it may not have an answer for each release
	})
	return client
}

// faults are what happens to the server, and what ends it.
var faults = map[string]struct{ begin, end func(p *testnats.Process) }{
	"killed": {
		func(p *testnats.Process) { p.Kill() },
		func(p *testnats.Process) { p.Start() },
	},
	"stopped": {
		func(p *testnats.Process) { p.Signal(testprocess.Stop) },
		func(p *testnats.Process) { p.Signal(testprocess.Continue) },
	},
}

func TestLocksUnderFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testnats.StartProcess(t)
			require.NoError(t, natsstore.CreateStream(t.Context(), p.Connect(), nil))
			l := histories.NewLoad(t, faultTTL, newClient(t, p), newClient(t, p))
			l.Progress()
			l.Renewed(0)
			l.Fault(func() { fault.begin(p) })
			l.Told()
			fault.end(p)
			l.Progress()
			l.Stop()
		})
	}
}

// TestAnEnsembleUnderFaults has three servers with a copy of the stream each. The stream has a
// leader. One client reaches only the leader, and the other one only the others.
func TestAnEnsembleUnderFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(e *testnats.Ensemble, leader *testnats.Process) (end func()){
		"the leader is killed": func(_ *testnats.Ensemble, leader *testnats.Process) func() {
			leader.Kill()
			return leader.Start
		},
		"the leader is stopped": func(_ *testnats.Ensemble, leader *testnats.Process) func() {
			leader.Signal(testprocess.Stop)
			return func() { leader.Signal(testprocess.Continue) }
		},
		"the leader is cut off": func(e *testnats.Ensemble, leader *testnats.Process) func() { return e.CutOff(leader) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, leader, others := startEnsemble(t)
			addresses := []string{others[0].Addr(), others[1].Addr()}
			l := histories.NewLoad(t, faultTTL, clientOn(t, leader.Connect()), clientOn(t, testnats.ConnectTo(t, addresses...)))
			l.Progress()
			l.Renewed(0)
			end := func() {}
			l.Fault(func() { end = fault(e, leader) })
			l.Renewed(1)
			require.NotEqual(t, leader.Name(), leaderOf(t, testnats.ConnectTo(t, addresses...)))
			l.Progress()
			end()
			l.Renewed(0)
			l.Progress()
			l.Stop()
		})
	}
}

// startEnsemble starts three servers with a copy of the stream each, and returns its leader and the others.
func startEnsemble(t *testing.T) (e *testnats.Ensemble, leader *testnats.Process, others []*testnats.Process) {
	t.Helper()
	e = testnats.StartEnsemble(t, 3)
	admin := e.Servers[0].Connect()
	require.Eventually(t, func() bool { // the ensemble has to choose a leader of its own first
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return natsstore.CreateStream(ctx, admin, &natsstore.Options{Replicas: 3}) == nil
	}, patience, 100*time.Millisecond)
	leader, others = e.Named(leaderOf(t, admin))
	return e, leader, others
}

// leaderOf returns the name of the server that leads the stream.
func leaderOf(t *testing.T, js jetstream.JetStream) (name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		of, err := js.Stream(ctx, stream)
		if err != nil {
			return false
		}
		cluster := of.CachedInfo().Cluster
		if cluster != nil {
			name = cluster.Leader
		}
		return name != ""
	}, patience, 50*time.Millisecond)
	return name
}

// TestAClientIsCutOffUnderLoad drops everything between one client and the server.
func TestAClientIsCutOffUnderLoad(t *testing.T) {
	t.Parallel()
	p := testnats.StartProcess(t)
	require.NoError(t, natsstore.CreateStream(t.Context(), p.Connect(), nil))
	link, err := testproxy.New("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(link.Close)
	l := histories.NewLoad(t, faultTTL, clientOn(t, testnats.ConnectTo(t, link.Addr())), newClient(t, p))
	l.Progress()
	l.Renewed(0)
	l.Fault(link.Block)
	l.Renewed(1)
	link.Unblock()
	l.Renewed(0)
	l.Progress()
	l.Stop()
}
