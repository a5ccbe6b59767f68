import Glibc
import Simulator

// The cost of gossip and its false deaths, in virtual time: target T15, and growth with the number of nodes.
//
//     gossip-bench NODES LOST-OF-A-THOUSAND HOURS SEED
//
// Prints one line of JSON: each node's traffic in a second, false deaths, virtual hours for each CPU hour.

@main enum GossipBench {
    static func main() {
        let numbers = CommandLine.arguments.dropFirst().compactMap { Double($0) }
        guard numbers.count == 4, numbers[0] >= 2 else {
            print("usage: gossip-bench NODES LOST-OF-A-THOUSAND HOURS SEED")
            exit(2)
        }
        let count = Int(numbers[0])
        let seconds = numbers[2] * 3600
        let world = GossipWorld(seed: UInt64(numbers[3]))
        world.keepsChanges = false
        world.network.lost = UInt64(numbers[1])
        for number in 0..<count { world.start("node-\(number)", seeds: ["node-0"]) }
        // One virtual minute, so that all nodes get to know each other.
        world.run(for: .seconds(60))
        let whole = (0..<count).allSatisfy { world.view($0).count == count - 1 }
        let before = (0..<count).map(world.traffic)
        let deaths = world.deaths
        let began = cpuSeconds()
        world.run(for: .nanoseconds(UInt64(seconds * 1e9)))
        let spent = cpuSeconds() - began
        var datagrams = 0.0
        var bytes = 0.0
        var streamed = 0.0
        for node in 0..<count {
            let after = world.traffic(node)
            datagrams += Double(after.datagrams - before[node].datagrams)
            bytes += Double(after.datagramBytes - before[node].datagramBytes)
            streamed += Double(after.streamBytes - before[node].streamBytes)
        }
        let each = seconds * Double(count)
        print(
            """
            {"nodes": \(count), "lost_of_1000": \(Int(numbers[1])), "hours": \(numbers[2]), \
            "whole": \(whole), \
            "datagrams_s": \(datagrams / each), "datagram_bytes_s": \(bytes / each), \
            "stream_bytes_s": \(streamed / each), "false_deaths": \(world.deaths - deaths), \
            "hours_per_cpu_hour": \(seconds / spent)}
            """)
    }

    private static func cpuSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
