package security

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// authority is a certificate authority.
type authority struct {
	t     *testing.T
	roots *x509.CertPool
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca := &authority{t: t, key: key, roots: x509.NewCertPool()}
	ca.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca.roots.AddCert(ca.sign(ca.cert).Leaf)
	return ca
}

func (ca *authority) sign(template *x509.Certificate) tls.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &ca.key.PublicKey, ca.key)
	require.NoError(ca.t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(ca.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ca.key, Leaf: leaf}
}

func (ca *authority) server() tls.Certificate {
	return ca.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// tlsProxy accepts TLS connections and forwards them to a plain server.
type tlsProxy struct {
	addr string
	work sync.WaitGroup

	mu       sync.Mutex // guards versions
	versions []uint16   // of the completed handshakes
}

func startTLSProxy(t *testing.T, config *tls.Config) *tlsProxy {
	target := shared.Server(t).Addr()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	x := &tlsProxy{addr: l.Addr().String()}
	x.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			x.work.Go(func() { x.serve(tls.Server(conn, config), target) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		x.work.Wait()
	})
	return x
}

func (x *tlsProxy) serve(conn *tls.Conn, target string) {
	defer conn.Close()
	if conn.Handshake() != nil {
		return
	}
	x.mu.Lock()
	x.versions = append(x.versions, conn.ConnectionState().Version)
	x.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	x.work.Go(func() {
		_, _ = io.Copy(conn, server)
		_ = conn.Close()
	})
	_, _ = io.Copy(server, conn)
	_ = server.Close()
}

func (x *tlsProxy) completed() []uint16 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.versions
}

// open returns a store that connects through the proxy.
func (x *tlsProxy) open(t *testing.T, config *tls.Config) *redisstore.Store {
	rdb := redis.NewClient(&redis.Options{Addr: x.addr, TLSConfig: config})
	t.Cleanup(func() { _ = rdb.Close() })
	s, err := redisstore.New(rdb, &redisstore.Options{Prefix: "lw:" + rand.Text() + ":", Timeout: 2 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestTLS checks which set-ups are accepted and which are refused.
func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	const v11, v12, v13 = tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13
	t.Run("works", func(t *testing.T) {
		x := startTLSProxy(t, &tls.Config{Certificates: []tls.Certificate{ca.server()}, MinVersion: v12})
		handOver(t, x.open(t, &tls.Config{RootCAs: ca.roots, MinVersion: v12}))
		assert.GreaterOrEqual(t, len(x.completed()), 3, "requests, renewals, and the subscription")
		for _, version := range x.completed() {
			assert.EqualValues(t, v13, version)
		}
	})
	var unknown x509.UnknownAuthorityError
	var misnamed x509.HostnameError
	for name, tc := range map[string]struct {
		server, client *tls.Config
		target         any
		text           string
	}{
		"unknown root":              {&tls.Config{}, &tls.Config{}, &unknown, ""},
		"wrong server name":         {&tls.Config{}, &tls.Config{RootCAs: ca.roots, ServerName: "redis.example"}, &misnamed, ""},
		"old version":               {&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: v11}, &tls.Config{RootCAs: ca.roots}, nil, "protocol version"},
		"version below the minimum": {&tls.Config{MaxVersion: v12}, &tls.Config{RootCAs: ca.roots, MinVersion: v13}, nil, "protocol version"},
		"no client certificate":     {&tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: v12}, &tls.Config{RootCAs: ca.roots}, nil, "handshake failure"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.server.Certificates = []tls.Certificate{ca.server()}
			x := startTLSProxy(t, tc.server)
			s := x.open(t, tc.client)
			_, err := s.Acquire(t.Context(), request("k"))
			require.Error(t, err)
			if tc.target != nil {
				require.ErrorAs(t, err, tc.target)
			} else {
				require.ErrorContains(t, err, tc.text)
			}
			require.Error(t, s.Renew(t.Context(), []driver.Lease{{Request: request("k"), Token: 17}}, outcomes(1)))
			assert.Empty(t, x.completed())
		})
	}
}

// handOver acquires a lock, renews it, and hands it over to a waiter.
func handOver(t *testing.T, s *redisstore.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l, err := s.Acquire(ctx, request("k"))
	require.NoError(t, err)
	require.NoError(t, s.Renew(ctx, []driver.Lease{l}, outcomes(1)))
	got := make(chan error, 1)
	go func() {
		l, err := s.Wait(ctx, request("k"), func() {})
		if err == nil {
			err = s.Release(ctx, l)
		}
		got <- err
	}()
	require.Eventually(t, func() bool { return waitingCount(t, s, "k") == 1 }, 10*time.Second, time.Millisecond)
	time.Sleep(100 * time.Millisecond) // for the subscription
	require.NoError(t, s.Release(ctx, l))
	require.NoError(t, <-got)
}
