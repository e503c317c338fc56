// The adapters of etcd's package concurrency and of this project's store on etcd.

package main

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
)

var etcdModules = []string{"go.etcd.io/etcd/client/v3"}

func etcdCandidates() []*candidate {
	return []*candidate{
		{name: "etcd concurrency", store: etcdServer, modules: etcdModules, renews: true, open: openEtcd, note: "sessions of 2 s; the token is the revision of the header"},
	}
}

func dialEtcd(addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
}

func oursOnEtcd(_ context.Context, addrs []string) (driver.Store, error) {
	c, err := dialEtcd(addrs)
	if err != nil {
		return nil, err
	}
	return etcdstore.New(c, nil)
}

func openEtcd(_ context.Context, addrs []string) (acquirer, error) {
	client, err := dialEtcd(addrs)
	var session *concurrency.Session // of the last lock
	return func(ctx context.Context, key string) (*grant, error) {
		if session == nil || hasEnded(session) {
			s, err := concurrency.NewSession(client, concurrency.WithTTL(int(lease.Seconds())))
			if err != nil {
				return nil, err
			}
			session = s
		}
		m, s := concurrency.NewMutex(session, key), session
		if err := m.Lock(ctx); err != nil {
			return nil, err
		}
		return &grant{func() bool { return !hasEnded(s) }, uint64(m.Header().Revision), m.Unlock}, nil
	}, err
}

func hasEnded(s *concurrency.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}
