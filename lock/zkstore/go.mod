module github.com/leasewheel/leasewheel/lock/zkstore

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/leasewheel/leasewheel v0.0.0
)

replace github.com/leasewheel/leasewheel => ../..
