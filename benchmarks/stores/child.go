// A child: an etcd or NATS server in a process of its own.

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/internal/testproxy"
)

// serverTask is the task of a child: to be a server that is a Go package.
type serverTask struct {
	Kind  string // etcd or nats
	Dir   string
	Ports []int // for clients, and for other servers
}

const startTimeout = 30 * time.Second

// child is the main function of a child.
func child(in io.Reader, out io.Writer) error {
	return bench.Serve(in, out, func(t serverTask) (func(string) (bench.Values, error), error) {
		none := func(string) (bench.Values, error) { return nil, nil }
		if t.Kind == "nats" {
			return none, serveNATS(t)
		}
		return none, serveEtcd(t)
	})
}

func serveNATS(t serverTask) error {
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: t.Ports[0], JetStream: true, StoreDir: t.Dir, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		return errors.New("the NATS server has not started")
	}
	return nil
}

func serveEtcd(t serverTask) error {
	at := func(port int) []url.URL {
		return []url.URL{{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}}
	}
	c := embed.NewConfig()
	c.Dir, c.LogLevel = t.Dir, "panic"
	c.ListenClientUrls, c.AdvertiseClientUrls = at(t.Ports[0]), at(t.Ports[0])
	c.ListenPeerUrls, c.AdvertisePeerUrls = at(t.Ports[1]), at(t.Ports[1])
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	select {
	case <-e.Server.ReadyNotify():
		return nil
	case <-time.After(startTimeout):
		return errors.New("the etcd server has not started")
	}
}

// startChild starts a child that is a server.
func startChild(kind string) (addr string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "bench-"+kind)
	if err != nil {
		return "", nil, err
	}
	ports, err := testproxy.FreePorts(2)
	if err != nil {
		return "", nil, err
	}
	p, err := bench.Start(serverTask{kind, dir, ports})
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("start %s: %w", kind, err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), func() {
		p.Kill()
		_ = os.RemoveAll(dir)
	}, nil
}
