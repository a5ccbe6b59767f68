import Model
import Partitions
import Quotas
import Routing

/// What one seed draws for a run of a simulated cluster: sizes, bounds, and which faults happen and how
/// often. Many runs, each without most faults and with some of them all the time, find more than as many runs
/// of one kind (Groce et al., "Swarm Testing", ISSTA 2012).
public struct SwarmDraw: Sendable, CustomStringConvertible {
    public typealias Options = ClusterSimulation.Options

    /// One drawn value.
    public struct Trait: Sendable {
        public let name: String
        public fileprivate(set) var value: UInt64
        /// The value if nothing is drawn; shrinking goes back to it.
        public let plain: UInt64
        fileprivate let apply: @Sendable (inout Options, UInt64) -> Void

        public var isPlain: Bool { value == plain }
    }

    public let seed: UInt64
    public private(set) var traits: [Trait] = []
    private var random: SeededGenerator

    public init(seed: UInt64) {
        self.seed = seed
        random = SeededGenerator(seed: seed &* 0x9E37_79B9_7F4A_7C15 ^ 0x5A7)
        drawSizes()
        drawFaults()
        drawRates()
        drawClocks()
        drawPartitionBounds()
        // Traits that were added later are drawn later, so that a seed keeps its earlier draws.
        drawJournalBounds()
        drawRouterBounds()
        drawNodeBounds()
        drawBacklogs()
        drawWorld()
        drawPushes()
        // The clocks of nodes that are ready differ by 400 ms here, and those of nodes that are not by more.
        add("clocks-apart-ms", \.clocksApart, value: roll(4) == 0 ? magnitude(400, 60_000) : 400)
        add("strange-answers", 0, value: rate()) { $0.strangeAnswersPerMille = $1 }
        add("unproven-at-once", 4, value: magnitude(1, 64)) { $0.pushes.unprovenAtOnce = Int($1) }
        add("snapshot-age-ms", \.partition.snapshotAge, value: magnitude(10, 1_800_000))
        add("wrong-settings-gap-ms", \.settingsGapMax, value: roll(3) == 0 ? even(300, 8000) : 0)
        add("lostMachine", 0, value: roll(4) == 0 ? 1 : 0) { if $1 == 1 { $0.faults.insert(.lostMachine) } }
        add("effects-gap", 0, value: roll(5) == 0 ? magnitude(20, 20_000) : 0) { $0.effectsGapMax = $1 }
        add("left-out", 0, value: rate() / 2) { $0.leftOutPerMille = $1 }
        add("unreadable-snapshots", 0, value: rate()) { $0.unreadablePerMille = $1 }
        add(SwarmDraw.lone, 0, value: roll(8) == 0 ? 1 : 0) { $0.isLone = $1 == 1 }
        drawReading()
        add("client-deaths", 0, value: roll(6) == 0 ? magnitude(2, 500) : 0) { $0.deathsPerMille = $1 }
        add("wrong-starts", 0, value: roll(3) == 0 ? even(50, 900) : 0) { $0.wrongStartsPerMille = $1 }
        let many = UInt64(Options.goneMany)
        add("gone-few", \.partition.goneFew, value: roll(4) == 0 ? magnitude(1, 10) : many)
        drawCopies()
    }

    /// A draw of the seed with the traits that a line names (in the form of `description`), and all others
    /// plain. `nil` if the line cannot be read or names a trait that does not exist.
    public init?(seed: UInt64, _ line: String) {
        self.init(seed: seed)
        for index in traits.indices { traits[index].value = traits[index].plain }
        guard set(line) else { return nil }
    }

    /// Sets the traits that a line names. False if the line cannot be read or names a trait that does not
    /// exist.
    public mutating func set(_ line: String) -> Bool {
        for said in line.split(separator: ",") where said != "nothing" {
            let words = said.split(separator: " ")
            guard words.count == 2, let value = UInt64(words[1]),
                let index = traits.firstIndex(where: { $0.name == words[0] })
            else { return false }
            traits[index].value = value
        }
        return true
    }

    private static let lone = "lone"

    /// The same draw for a lone node.
    public var alone: SwarmDraw {
        traits.firstIndex { $0.name == SwarmDraw.lone }.map { with($0, 1) } ?? self
    }

    /// The traits that differ from a plain run, in one line.
    public var description: String {
        let drawn = traits.filter { !$0.isPlain }.map { "\($0.name) \($0.value)" }
        return drawn.isEmpty ? "nothing" : drawn.joined(separator: ", ")
    }

    public var options: Options {
        var options = Options(seed: seed)
        options.faults = []
        for trait in traits { trait.apply(&options, trait.value) }
        options.hasFaults = true
        // The first frame over a connection may have waited for it as long as frames may wait, and the
        // receiver must assume that it did. A request needs more time than that.
        let oldest = options.links.waitMax + Deadline.handoverMax
        options.routing.deadline = max(options.routing.deadline, oldest + .seconds(1))
        // Lease accounting without an account for a loop serves the loop only when another loop's account
        // ends.
        options.quotas.accountCountMax = max(
            options.quotas.accountCountMax, options.nodeCount * options.loopCount)
        options.patience = .seconds(45)
        if options.isLone || options.pushedPerMille > 0 { options.copiedAfter = .zero }
        options.copiedAfter = min(options.copiedAfter, .milliseconds(options.seconds * 900))
        options.loop.readBytesAtOnce = min(options.loop.readBytesAtOnce, options.peerBacklog.bytes / 32)
        options.partition.streamBytesAtOnce = min(
            options.partition.streamBytesAtOnce, options.loop.readBytesAtOnce)
        return options
    }

    /// The same draw with another value of one trait.
    func with(_ index: Int, _ value: UInt64) -> SwarmDraw {
        var draw = self
        draw.traits[index].value = value
        return draw
    }

    // MARK: Drawing

    mutating func roll(_ bound: UInt64) -> UInt64 { random.next(upperBound: max(1, bound)) }
    /// A number from `from` to `to`, each as likely as any other.
    mutating func even(_ from: UInt64, _ to: UInt64) -> UInt64 { from + roll(to - from + 1) }
    /// A number from `from` to `to`: each order of magnitude as likely as any other, the ends now and then.
    mutating func magnitude(_ from: UInt64, _ to: UInt64) -> UInt64 {
        switch roll(12) {
        case 0: return from
        case 1: return to
        default: break
        }
        let bits = 64 - (to - from + 1).leadingZeroBitCount
        let top = min(to - from, UInt64(1) << roll(UInt64(bits)))
        return from + even(top / 2, top)
    }
    /// A rate in 1,000: never, seldom, often or nearly always.
    mutating func rate() -> UInt64 {
        switch roll(10) {
        case ..<5: 0
        case ..<8: even(1, 20)
        case 8: even(20, 200)
        default: even(200, 950)
        }
    }

    mutating func add(
        _ name: String, _ plain: UInt64, value: UInt64,
        apply: @escaping @Sendable (inout Options, UInt64) -> Void
    ) {
        traits.append(Trait(name: name, value: value, plain: plain, apply: apply))
    }

    /// The same for a property of the options, with its default.
    mutating func add<Number: FixedWidthInteger & Sendable>(
        _ name: String, _ key: any WritableKeyPath<Options, Number> & Sendable, value: UInt64
    ) {
        let plain = UInt64(Options(seed: seed)[keyPath: key])
        add(name, plain, value: value) { $0[keyPath: key] = Number($1) }
    }

    /// The same for a time, in milliseconds.
    mutating func add(_ name: String, _ key: any Length, value: UInt64) {
        let plain = Options(seed: seed)[keyPath: key].milliseconds
        add(name, plain, value: value) { $0[keyPath: key] = .milliseconds($1) }
    }

    private mutating func drawSizes() {
        add("nodes", 5, value: even(1, 9)) { $0.nodeCount = Int($1) }
        add("partitions", 8, value: magnitude(1, 16)) {
            $0.partitionCount = Int($1)
            $0.partition.partitionCount = Int($1)
        }
        add("loops", 1, value: even(1, 4)) { $0.loopCount = Int($1) }
        add("databases", 1, value: [1, 1, 2, 3][Int(roll(4))]) {
            $0.databaseCount = min(Int($1), $0.partitionCount)
        }
        add("projects", 1, value: [1, 1, 2, 3][Int(roll(4))]) { $0.projectCount = Int($1) }
        let devices = even(2, 30)
        add("devices", 12, value: devices) { $0.deviceCount = Int($1) }
        add("topics", 5, value: magnitude(1, 20)) { $0.topicCount = Int($1) }
        let seconds = even(4, 30)
        add("seconds", 30, value: seconds) { $0.seconds = $1 }
        // So that some runs have few operations, and no run takes for ever.
        let operations = [even(50, 500), even(500, 2000), even(2000, 6000)][Int(roll(3))]
        let pause = max(2, 2000 * seconds * devices / operations)
        add("pause-ms", 1200, value: pause) { $0.pauseMax = .milliseconds($1) }
        add("body-bytes", 0, value: [0, 10, 200, 1500, 4096][Int(roll(5))]) { $0.bodyBytesMax = Int($1) }
        let bursts = roll(3) == 0 ? even(1, 3) : 0
        add("bursts-per-mille", 0, value: min(500, bursts * 2200 / operations + min(bursts, 1))) {
            $0.burstPerMille = $1
        }
        add("burst-size", 100, value: magnitude(2, 2000)) { $0.burstMax = $1 }
        add("companions-per-mille", \.companionsPerMille, value: [0, 30, 167, 500, 1000][Int(roll(5))])
        add("unregister-per-mille", 0, value: roll(3) == 0 ? even(1, 100) : 0) { $0.unregisterPerMille = $1 }
        add("tight", 0, value: roll(4) == 0 ? 1 : 0) { if $1 == 1 { $0.limits = .tight } }
        add("limits-gap-ms", 0, value: roll(6) == 0 ? even(200, 8000) : 0) {
            $0.limitsGapMax = .milliseconds($1)
            if $1 > 0 { $0.limits = .tight }
        }
        add("fanouts", \.limits.fanouts, value: roll(4) == 0 ? magnitude(1, 1000) : 1000)
        add("poison", 1, value: roll(4) == 0 ? 1 : 0) { $0.poisons = $1 == 1 }
    }

    private mutating func drawFaults() {
        for fault in Fault.allCases where fault != .standstill && fault != .lostMachine {
            add("\(fault)", 0, value: roll(3) == 0 ? 1 : 0) { if $1 == 1 { $0.faults.insert(fault) } }
        }
        add(
            "fault-gap-ms", \.faultGapMax,
            value: [even(150, 1000), even(1000, 4000), even(4000, 15_000)][Int(roll(3))])
    }

    private mutating func drawRates() {
        add("refused", 0, value: rate()) { $0.refusedPerMille = $1 }
        add("unknown", 0, value: rate()) { $0.unknownPerMille = $1 }
        add("stalls", 0, value: rate()) { $0.stallPerMille = $1 }
        add("stall-ms", 1500, value: magnitude(10, 5000)) { $0.stallMax = .milliseconds($1) }
        add("write-ms", 5, value: [1, 5, 5, 50, 400][Int(roll(5))]) { $0.writeMax = .milliseconds($1) }
        add("latency-us", 450, value: magnitude(10, 100_000)) { $0.latencyMax = .microseconds($1) }
        add("lost-datagrams", 0, value: rate() / 2) { $0.lostDatagramsPerMille = $1 }
        add("failed-calls", 0, value: rate() / 2) { $0.failedPerMille = $1 }
        add("full-streams", 0, value: rate() / 2) { $0.fullPerMille = $1 }
    }

    private mutating func drawClocks() {
        add("leap-ms", \.leapMax, value: roll(2) == 0 ? magnitude(200, 40 * 365 * 86_400_000) : 200)
        add("drift-per-mille", 0, value: roll(4) == 0 ? even(1, 50) : 0) { $0.driftPerMille = $1 }
    }

    private mutating func drawPartitionBounds() {
        /// Half of the bounds stay at their defaults, so that a run meets each small one by itself. Most of
        /// the others are small, because no run meets a large one; some lie anywhere between.
        func bound(_ from: Int, _ to: Int) -> UInt64 {
            let top = roll(4) == 0 ? to : min(to, to > 10_000 ? 20_000 : 64)
            return roll(2) == 0 ? magnitude(UInt64(from), UInt64(top)) : UInt64(to)
        }
        let plain = PartitionOptions(partitionCount: 1)
        func add(_ name: String, _ key: any WritableKeyPath<PartitionOptions, Int> & Sendable, from: Int) {
            let to = plain[keyPath: key]
            self.add(name, UInt64(to), value: bound(from, to)) { $0.partition[keyPath: key] = Int($1) }
        }
        add("record-bytes", \.recordBytesMax, from: 1)
        add("entry-bytes", \.entryBytesMax, from: 1)
        add("records-in-flight", \.recordsInFlightMax, from: 1)
        add("outbox-window", \.outboxWindow, from: 1)
        add("offer-bytes", \.offerBytesMax, from: 1)
        add("deferred-bytes", \.deferredBytesMax, from: 1000)
        add("outbox-bytes", \.outboxBytesMax, from: 200)
        add("push-window", \.pushWindow, from: 1)
        let waiting = plain.waitingBytesMax
        self.add(
            "waiting-bytes", \.partition.waitingBytesMax,
            value: roll(4) == 0 ? magnitude(100, 200_000) : waiting)
        self.add("snapshot-bytes", \.partition.snapshotBytesMin, value: magnitude(100, 20_000))
        self.add("bookkeeping-ms", \.partition.bookkeepingDelay, value: magnitude(1, 5000))
        self.add("outbox-retry-ms", \.partition.outboxRetry, value: magnitude(50, 1000))
        self.add(
            "condition-patience-ms", \.partition.conditionPatience,
            value: roll(2) == 0 ? magnitude(2000, 8000) : 8000)
    }
}
