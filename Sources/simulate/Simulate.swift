import Glibc
import Simulator

/// Runs simulated clusters by seed, and says what was found wrong and how fast they ran.
///
///     simulate --seeds A-B [--seconds N] [--no-faults] [--verbose]
@main
struct Simulate {
    static func main() {
        var seeds: ClosedRange<UInt64> = 1...20
        var seconds: UInt64 = 30
        var hasFaults = true
        var isVerbose = false
        var traced: ClosedRange<UInt64>?
        var arguments = Array(CommandLine.arguments.dropFirst())
        while !arguments.isEmpty {
            switch arguments.removeFirst() {
            case "--seeds":
                let bounds = arguments.removeFirst().split(separator: "-").compactMap { UInt64($0) }
                seeds = bounds[0]...(bounds.count > 1 ? bounds[1] : bounds[0])
            case "--seconds": seconds = UInt64(arguments.removeFirst()) ?? seconds
            case "--trace":
                let bounds = arguments.removeFirst().split(separator: "-").compactMap { UInt64($0) }
                traced = bounds[0]...bounds[1]
            case "--no-faults": hasFaults = false
            case "--verbose": isVerbose = true
            case let unknown: return print("unknown: \(unknown)")
            }
        }
        for seed in seeds {
            var options = ClusterSimulation.Options(seed: seed)
            options.seconds = seconds
            options.hasFaults = hasFaults
            options.traced = traced
            let simulation = ClusterSimulation(options)
            let began = clock()
            let (history, violations) = simulation.run()
            let cpu = Double(clock() - began) / Double(CLOCKS_PER_SEC)
            print("seed \(seed): \(simulation.summary), \(cpu) s, digest \(simulation.digest)")
            for line in simulation.trace { print("    \(line)") }
            if isVerbose { for fault in history.faults { print("  \(fault)") } }
            for violation in violations { print("  \(violation.guarantee): \(violation)") }
        }
    }
}
