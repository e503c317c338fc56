// The URL of the server, and clients for it.

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/tlsdial"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// Environment variables that the program reads, and that it sets for a command.
const (
	urlEnv    = "LEASEWHEEL_URL"
	prefixEnv = "LEASEWHEEL_PREFIX"

	keyEnv   = "LEASEWHEEL_KEY"
	tokenEnv = "LEASEWHEEL_TOKEN"
)

const (
	defaultURL   = "redis://localhost:6379/0"
	askTimeout   = 3 * time.Second  // to find out whether the server is a node of a cluster
	tryTimeout   = 3 * time.Second  // of -nonblock, for the server to answer
	closeTimeout = 4 * time.Second  // to release what is held
	leaveTimeout = time.Second      // to leave the queue, or to take back a request without an answer
	readTimeout  = 30 * time.Second // of a command that shows or checks something
)

// connection is the server of a command, from its flags.
type connection struct {
	url     string
	prefix  string
	verbose bool
}

// define defines the flags.
func (o *connection) define(f *flag.FlagSet) {
	f.StringVar(&o.url, "url", "", "`URL` of the server; the default is $LEASEWHEEL_URL, or "+defaultURL+".\n"+
		"Others can see flags in the list of processes, so put a password into the variable.")
	f.StringVar(&o.prefix, "prefix", "", "`text` before the names of all keys; the default is $LEASEWHEEL_PREFIX, or lw:")
	f.BoolVar(&o.verbose, "verbose", false, "print the log of the library to stderr")
	alias(f, "v", "verbose")
}

// server is an open store with its client of Redis.
type server struct {
	rdb   redis.UniversalClient
	store *redisstore.Store
}

// open returns the store. The error is a usageError if the URL is bad. It asks the server
// once whether it is a node of a cluster.
func (o *connection) open(ctx context.Context) (*server, error) {
	rdb, err := dial(ctx, firstOf(o.url, os.Getenv(urlEnv), defaultURL))
	if bad := (usageError{}); errors.As(err, &bad) {
		bad.text = fmt.Sprintf("bad URL of the server (-url or %s): %s; leasewheel help has examples", urlEnv, bad.text)
		return nil, bad
	}
	if err != nil {
		return nil, err
	}
	store, err := redisstore.New(rdb, &redisstore.Options{Prefix: firstOf(o.prefix, os.Getenv(prefixEnv))})
	if err != nil {
		_ = rdb.Close()
		return nil, usageError{inFlags(err)}
	}
	return &server{rdb, store}, nil
}

// close closes the store, if it has no lock.Client that does, and the client of Redis.
func (s *server) close() {
	_ = s.store.Close()
	_ = s.rdb.Close()
}

// logger returns the logger of the library.
func (o *connection) logger(std streams) *slog.Logger {
	if !o.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(std.err, nil))
}

// inFlags returns the error of an option as a text that names the flag.
func inFlags(err error) string {
	return strings.NewReplacer("lock: bad TTL: ", "", "lock: ", "", "redisstore: ", "", "Options.TTL", "-ttl", "Options.MinHold", "-min-hold", "Terms.Yields", "-yield",
		"Options.MaxHold", "-max-hold", "Options.Metadata", "-meta", "Options.Prefix", "-prefix", "Terms.", "-").Replace(err.Error())
}

// lockClient is a client of locks with its server.
type lockClient struct {
	*lock.Client
	server *server
}

// client returns a client of locks. The caller closes it with shut.
func (o *connection) client(ctx context.Context, std streams, options lock.Options) (*lockClient, error) {
	s, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	options.Logger = o.logger(std)
	client, err := lock.New(s.store, &options)
	if err != nil {
		s.close()
		return nil, usageError{inFlags(err)}
	}
	return &lockClient{client, s}, nil
}

// shut closes the client. It waits for releases that are not confirmed yet for closeTimeout.
func (c *lockClient) shut() error { return c.shutWithin(closeTimeout) }

// shutWithin is shut with another limit.
func (c *lockClient) shutWithin(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := c.Close(ctx)
	_ = c.server.rdb.Close()
	return err
}

// dial returns a client for a server, a cluster, or the master that Sentinel names. It connects
// only to find out whether a server is a node of a cluster. The error of a bad URL is a usageError.
func dial(ctx context.Context, text string) (redis.UniversalClient, error) {
	text = strings.TrimSpace(text) // a file with a secret ends in a line feed
	switch {
	case strings.HasPrefix(text, "/"):
		text = "unix://" + text
	case !strings.Contains(text, "://"):
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, strings.Contains(text, "#"):
		return nil, errForm
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return nil, usageError{"leasewheel uses Redis only, by redis://, rediss:// or unix://"}
	}
	switch query := u.Query(); {
	case query.Has("master_name"):
		var opts *redis.FailoverOptions
		if opts, err = redis.ParseFailoverURL(text); err == nil {
			return redis.NewFailoverClient(opts), nil
		}
	case query.Has("addr"):
		var opts *redis.ClusterOptions
		if opts, err = redis.ParseClusterURL(text); err == nil {
			return redis.NewClusterClient(opts), nil
		}
	default:
		var opts *redis.Options
		if opts, err = redis.ParseURL(text); err == nil {
			return clusterOf(ctx, opts)
		}
	}
	return nil, errForm
}

// errForm is the error of a bad URL. It quotes nothing: a character that is not escaped in a password makes
// the password a part of the address or an option.
var errForm = usageError{"its form is redis://USER:PASSWORD@HOST:PORT/DB?OPTION=VALUE, with the options of go-redis, " +
	"and in a password # % / ? and spaces are written as %23 %25 %2F %3F %20"}

// clusterOf returns a client for the server or, if it is a node of a cluster, for the cluster. A server that reports none
// counts as a single one. The error is the cause of ctx if it has ended, and that of a server without TLS if the URL asks for it.
func clusterOf(ctx context.Context, opts *redis.Options) (redis.UniversalClient, error) {
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	once := *opts
	once.MaxRetries, once.DialerRetries, once.ContextTimeoutEnabled = -1, 1, true
	if opts.TLSConfig != nil {
		once.Dialer = tlsdial.Dialer((&tls.Dialer{Config: opts.TLSConfig}).DialContext)
	}
	var info string
	err := whileNot(asked, func() error { // a dial with TLS, and a read, do not end with their ctx
		rdb := redis.NewClient(&once)
		defer func() { _ = rdb.Close() }()
		text, err := rdb.Info(asked, "cluster").Result()
		info = text
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, new(tlsdial.NoTLSError)):
		return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	case err != nil || !strings.Contains(info, "cluster_enabled:1"):
		return redis.NewClient(opts), nil
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{opts.Addr}, Username: opts.Username, Password: opts.Password, TLSConfig: opts.TLSConfig,
	}), nil
}

// firstOf returns the first text that is not empty.
func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// readContext returns a context for a command that shows or checks something.
func readContext() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), readTimeout, noAnswerError(readTimeout))
}
