module github.com/leasewheel/leasewheel/benchmarks

go 1.26.0

require github.com/leasewheel/leasewheel v0.0.0

replace github.com/leasewheel/leasewheel => ../
