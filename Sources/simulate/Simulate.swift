import Glibc
import Simulator

/// Runs simulated clusters by seed, and says what was found wrong and how fast they ran.
///
///     simulate [--seeds A-B] [--seconds N] [--no-faults] [--tight] [--dense] [--narrow]
///              [--verbose] [--trace FROM-TO]
///
/// `--seconds`: virtual seconds of load for each seed; `--tight`: with quotas that clients meet; `--dense`:
/// few devices and topics, and clients in a hurry; `--narrow`: small bounds, drawn from the seed;
/// `--verbose` lists the faults; `--trace` prints what happened between two virtual milliseconds. Ends with
/// 1 where a promise was broken.
@main
struct Simulate {
    private var seeds: ClosedRange<UInt64> = 1...20
    private var seconds: UInt64 = 30
    private var hasFaults = true
    private var isTight = false
    private var isDense = false
    private var isNarrow = false
    private var isVerbose = false
    private var traced: ClosedRange<UInt64>?
    private var isMistaken = false

    static func main() {
        var simulate = Simulate()
        simulate.read(Array(CommandLine.arguments.dropFirst()))
        guard !simulate.isMistaken else {
            print("simulate [--seeds A-B] [--seconds N] [--no-faults] [--tight] [--dense] [--narrow]")
            print("         [--verbose] [--trace FROM-TO]")
            exit(2)
        }
        exit(simulate.run() ? 0 : 1)
    }

    private mutating func read(_ arguments: [String]) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--seeds": seeds = range(rest.popFirst()) ?? seeds
            case "--seconds": seconds = rest.popFirst().flatMap { UInt64($0) } ?? seconds
            case "--trace": traced = range(rest.popFirst())
            case "--no-faults": hasFaults = false
            case "--tight": isTight = true
            case "--dense": isDense = true
            case "--narrow": isNarrow = true
            case "--verbose": isVerbose = true
            default: isMistaken = true
            }
        }
    }

    private mutating func range(_ text: String?) -> ClosedRange<UInt64>? {
        let bounds = (text ?? "").split(separator: "-").compactMap { UInt64($0) }
        guard let first = bounds.first, let last = bounds.last, first <= last else {
            isMistaken = true
            return nil
        }
        return first...last
    }

    /// False where a promise was broken.
    private func run() -> Bool {
        var simulated: UInt64 = 0
        var isGood = true
        let began = clock()
        for seed in seeds {
            var options = ClusterSimulation.Options(seed: seed)
            options.seconds = seconds
            options.hasFaults = hasFaults
            options.traced = traced
            if isDense {
                (options.deviceCount, options.topicCount) = (6, 2)
                options.pauseMax = 250_000_000
            }
            if isNarrow { options.drawBounds() }
            if isTight { options.limits = .tight }
            options.keepsPast = seconds <= 120
            let simulation = ClusterSimulation(options)
            let (history, violations) = simulation.run()
            simulated += simulation.now
            print("seed \(seed): \(simulation.summary), digest \(simulation.digest)")
            for line in simulation.trace { print("    \(line)") }
            if isVerbose { for fault in history.faults { print("  \(fault)") } }
            for violation in violations { print("  \(violation.guarantee): \(violation)") }
            isGood = isGood && violations.isEmpty
        }
        let cpu = Double(clock() - began) / Double(CLOCKS_PER_SEC)
        let hours = Double(simulated) / 3.6e12
        print("\(hours) hours simulated in \(cpu) CPU-seconds: \(hours / cpu * 3600) hours per CPU-hour")
        return isGood
    }
}
