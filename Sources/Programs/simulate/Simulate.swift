import Glibc
import Simulator

/// Runs simulated clusters by seed, and prints the promises that they broke and how fast they ran.
///
///     simulate [--lone] [--seeds A-B] [--seconds N] [--no-faults] [--tight] [--dense] [--narrow]
///              [--verbose] [--trace FROM-TO]
///     simulate --swarm [--lone] [--with "NAME VALUE, …"] [--seeds A-B] [--verbose] [--trace FROM-TO]
///     simulate --shrink SEED
///     simulate --draw "NAME VALUE, …" --seeds A-B [--trace FROM-TO]
///
/// `--swarm`: each seed draws sizes, bounds, rates and clocks. For each seed that is not clean the program
/// prints the draw, the faults and the broken promises. `--shrink` looks for the smallest draw of a seed that
/// still breaks the same promise. `--draw` runs seeds with such a draw, and `--with` sets these values beside
/// what each seed draws.
///
/// `--lone`: one lone node instead of a cluster, with crashes between two effects. `--seconds`: virtual
/// seconds of load for each seed; `--tight`: with quotas that clients meet; `--dense`: few devices and
/// topics, and clients in a hurry; `--narrow`: small bounds, drawn from the seed; `--verbose` lists the
/// faults; `--trace` prints the events between two virtual milliseconds. Exits with 1 if a promise was
/// broken.
@main
struct Simulate {
    private var seeds: ClosedRange<UInt64> = 1...20
    private var seconds: UInt64 = 30
    private var hasFaults = true
    private var isTight = false
    private var isDense = false
    private var isNarrow = false
    private var isSwarm = false
    private var isLone = false
    private var shrinks: UInt64?
    private var drawn: String?
    private var forced = ""
    private var isVerbose = false
    private var traced: ClosedRange<UInt64>?
    private var isMistaken = false

    static func main() {
        var simulate = Simulate()
        simulate.read(Array(CommandLine.arguments.dropFirst()))
        guard !simulate.isMistaken else {
            print("simulate [--lone] [--seeds A-B] [--seconds N] [--no-faults] [--tight] [--dense]")
            print("         [--narrow] [--verbose] [--trace FROM-TO]")
            print("simulate --swarm [--lone] [--with \"NAME VALUE, …\"] [--seeds A-B] [--verbose]")
            print("         [--trace FROM-TO]")
            print("simulate --shrink SEED")
            print("simulate --draw \"NAME VALUE, …\" --seeds A-B [--trace FROM-TO]")
            exit(2)
        }
        if let seed = simulate.shrinks { exit(simulate.shrink(seed) ? 0 : 1) }
        exit((simulate.isSwarm ? simulate.swarm() : simulate.run()) ? 0 : 1)
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
            case "--swarm": isSwarm = true
            case "--lone": isLone = true
            case "--draw":
                drawn = rest.popFirst()
                isSwarm = true
                isMistaken = isMistaken || SwarmDraw(seed: 1, drawn ?? "?") == nil
            case "--with":
                forced = rest.popFirst() ?? "?"
                var draw = SwarmDraw(seed: 1)
                isMistaken = isMistaken || !draw.set(forced)
            case "--shrink":
                shrinks = range(rest.popFirst())?.lowerBound
                isMistaken = isMistaken || shrinks == nil
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

    /// False if a promise was broken.
    private func run() -> Bool {
        var simulated: UInt64 = 0
        var isGood = true
        let began = clock()
        for seed in seeds {
            var options = ClusterSimulation.Options(seed: seed)
            options.seconds = seconds
            options.hasFaults = hasFaults
            if isLone { options.beAlone() }
            options.traced = traced
            if isDense {
                (options.deviceCount, options.topicCount) = (6, 2)
                options.pauseMax = .milliseconds(250)
            }
            if isNarrow { options.drawBounds() }
            if isTight { options.limits = .tight }
            options.keepsPast = seconds <= 120
            let simulation = ClusterSimulation(options)
            let (history, violations) = simulation.run()
            simulated += simulation.now.nanoseconds
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

    // MARK: Swarms

    private func swarm() -> Bool {
        var simulated: UInt64 = 0
        var unclean: [UInt64] = []
        var counts: [String: Int] = [:]
        var digest: UInt64 = 0
        let began = clock()
        for seed in seeds {
            var draw = drawn.flatMap { SwarmDraw(seed: seed, $0) } ?? SwarmDraw(seed: seed)
            if isLone { draw = draw.alone }
            _ = draw.set(forced)
            let (simulation, history, violations) = run(draw)
            simulated += simulation.now.nanoseconds
            counts.merge(simulation.counts, uniquingKeysWith: +)
            digest = digest &* 31 ^ simulation.digest
            if isVerbose { print("seed \(seed): \(draw)\n  \(simulation.summary)") }
            guard !violations.isEmpty else { continue }
            unclean.append(seed)
            tell(draw, simulation, history: history, violations: violations)
        }
        let cpu = Double(clock() - began) / Double(CLOCKS_PER_SEC)
        print("\(seeds.count - unclean.count) of \(seeds.count) seeds clean, digest \(digest)")
        if !unclean.isEmpty { print("not clean: \(unclean.map(String.init).joined(separator: " "))") }
        print(
            "met: "
                + counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
        let hours = Double(simulated) / 3.6e12
        print(
            "\(hours) hours simulated in \(cpu) CPU-seconds: \(Double(seeds.count) / cpu * 60) seeds a minute"
        )
        return unclean.isEmpty
    }

    private func run(_ draw: SwarmDraw) -> (ClusterSimulation, History, [Violation]) {
        var options = draw.options
        options.traced = traced
        let simulation = ClusterSimulation(options)
        let (history, violations) = simulation.run()
        return (simulation, history, violations)
    }

    private func tell(
        _ draw: SwarmDraw, _ simulation: ClusterSimulation, history: History, violations: [Violation]
    ) {
        print("seed \(draw.seed) draws \(draw)")
        print("  \(simulation.summary)")
        for fault in history.faults { print("  \(fault)") }
        for line in simulation.trace { print("    \(line)") }
        for violation in violations.prefix(20) { print("  \(violation.guarantee): \(violation)") }
        if violations.count > 20 { print("  and \(violations.count - 20) more") }
    }

    /// False if the seed is not clean.
    private func shrink(_ seed: UInt64) -> Bool {
        let smallest = SwarmDraw(seed: seed).shrunk({ print("still: \($0)") })
        let (simulation, history, violations) = run(smallest)
        tell(smallest, simulation, history: history, violations: violations)
        return violations.isEmpty
    }
}
