import Glibc
import Model
import Partitions

// How long a partition of a million subscriptions holds its loop while it makes a snapshot.

extension CoreBench {
    static func snapshots() {
        for (devices, topics) in [(50_000, 20), (1_000_000, 1)] { snapshots(devices, topics) }
    }

    private static func snapshots(_ deviceCount: Int, _ topicsEach: Int) {
        let bench = Bench(count: 1)
        let id = PartitionID(0)
        func request(_ request: Request) {
            bench.post(.request(RequestID(gateway: bench.gateway, number: 1), request), id)
        }
        for number in 0..<deviceCount {
            request(.register(project: bench.project, limit: .max, nonce: 1, secret: UInt64(number)))
            if number % 1000 == 999 { bench.turn() }
        }
        bench.settle()
        // Topics of a hundred members each.
        let devices = bench.devices
        func change(_ kind: Request.ChangeKind, _ number: Int) {
            let start = number * 100 % deviceCount
            request(
                .change(
                    kind, project: bench.project, topic: TopicName(checked: Array("topic-\(number)".utf8)),
                    devices: Array(devices[start..<start + 100]), by: .backend))
        }
        let count = deviceCount * topicsEach / 100
        for number in 0..<count {
            change(.subscribe, number)
            if number % 10 == 9 { bench.turn() }
        }
        bench.settle()
        for _ in 0..<2000 { bench.turn() }
        let before = milliseconds { _ = bench.partitions[0].image() }
        // The journal outgrows the last snapshot again and again; every turn changes ten topics.
        bench.longestTurn = 0
        let parts = bench.parts
        for round in 0..<6000 {
            for step in 0..<20 {
                change(step % 2 == 0 ? .unsubscribe : .subscribe, (round * 170 + step / 2 * 17) % count)
            }
            bench.turn()
        }
        precondition(bench.parts > parts, "no snapshot was made")
        print(
            "\(deviceCount) devices x \(topicsEach): whole \(before) ms; in slices the longest turn"
                + " \(bench.longestTurn) ms, \(bench.parts - parts) parts")
    }
}

/// CPU time of this thread: other work on the machine does not count.
func milliseconds(_ body: () throws -> Void) rethrows -> Double {
    func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
    }
    let begun = now()
    try body()
    return now() - begun
}
