import Model
import NodeCore
import Partitions
import PushDesk
import PushMessages
import PushScheduling
import Testing

@testable import Simulator

/// Nodes with the machines of their clients for push services, and services that do anything.
@Suite("A simulated cluster with push services")
struct PushSimulationTests {
    /// All devices have addresses, services have moods, and the bounds on the way there are small.
    static func options(_ seed: UInt64) -> ClusterSimulation.Options {
        var options = ClusterSimulation.Options(seed: seed)
        var random = SeededGenerator(seed: seed ^ 0x9005)
        func draw(_ from: UInt64, _ to: UInt64) -> Int { Int(from + random.next(upperBound: to - from + 1)) }
        options.projectCount = draw(1, 3)
        (options.pushedPerMille, options.pushFailPerMille, options.pushGonePerMille) = (900, 100, 20)
        options.pushMoodsPerMille = UInt64(draw(100, 600))
        options.webPushCount = draw(1, 3)
        options.pushClient.allMax = draw(1, 8)
        options.pushClient.perOriginMax = draw(1, 4)
        options.pushes.atOnce = draw(1, 6)
        options.pushes.waitingMax = draw(1, 6)
        options.pushes.failuresMax = draw(2, 5)
        options.partition.pushesAtOnce = draw(1, 8)
        options.apns.streamsMax = draw(1, 8)
        options.appleStreams = draw(1, 8)
        options.apns.connectionsPerPoolMax = draw(1, 3)
        options.apns.triesMax = draw(1, 5)
        options.accessTokenSeconds = UInt64(draw(2, 8))
        options.tokensRefusedPerMille = UInt64(draw(0, 200))
        options.pauseMax = .milliseconds(400)
        options.partition.unreachableMax = .milliseconds(UInt64(draw(1, 12_000)))
        options.partition.listenersReturn = .seconds(UInt64(draw(1, 10)))
        options.poisons = false
        options.appleOddPerMille = UInt64(draw(0, 60))
        options.pushes.provenFor = .milliseconds(UInt64(draw(0, 3000)))
        return options
    }

    @Test("keeps every promise, with nothing planted", arguments: UInt64(1)...12)
    func promises(seed: UInt64) {
        let simulation = ClusterSimulation(PushSimulationTests.options(seed))
        let violations = simulation.run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(simulation.counts["pushes accepted", default: 0] > 0)
    }

    @Test("has devices that end because nobody can reach them, and none that told another address")
    func unreachable() {
        var ended = 0
        for seed in UInt64(21)...40 {
            var options = PushSimulationTests.options(seed)
            PushSimulationTests.loseAddresses(&options)
            let simulation = ClusterSimulation(options)
            let violations = simulation.run().violations
            #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
            ended += Int(simulation.counts["unreachable devices ended", default: 0])
        }
        #expect(ended > 0)
        expect("G1", "endReachable of partitions") {
            PushSimulationTests.loseAddresses(&$0)
            $0.addressPerMille = 400
            $0.partition.planted = .endReachable
        }
    }

    /// Services often say that an address is gone, and devices end soon after.
    private static func loseAddresses(_ options: inout ClusterSimulation.Options) {
        (options.pushGonePerMille, options.partition.unreachableMax) = (200, .seconds(3))
        options.partition.listenersReturn = .seconds(1)
    }

    /// Devices have addresses of several kinds, and their projects' services come and go.
    static func severalKinds(_ seed: UInt64) -> ClusterSimulation.Options {
        var options = options(seed)
        options.addressKindsMax = 2 + Int(seed % 2)
        options.servicesGapMax = .milliseconds(500 + seed % 5 * 1000)
        return options
    }

    @Test(
        "keeps every promise where devices have several addresses and services come and go",
        arguments: UInt64(1)...12)
    func severalAddresses(seed: UInt64) {
        let simulation = ClusterSimulation(PushSimulationTests.severalKinds(seed))
        let violations = simulation.run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(simulation.counts["pushes accepted", default: 0] > 0)
        #expect(simulation.counts["changes of services", default: 0] > 0)
    }

    /// Expects that a checker of some seed sees the break of a promise.
    private func expect(
        _ guarantee: String, _ bug: String, plant: (inout ClusterSimulation.Options) -> Void
    ) {
        for seed in UInt64(1)...120 {
            var options = PushSimulationTests.options(seed)
            plant(&options)
            options.stopsAtViolation = true
            if ClusterSimulation(options).run().violations.contains(where: { $0.guarantee == guarantee }) {
                return
            }
        }
        Issue.record("no seed of 120 shows planted bug \(bug)")
    }

    @Test(
        "sees each bug that is planted in the queue of the client for push services",
        arguments: [
            (PlantedInScheduling.crowdOrigins, "places"), (.takeAllPlaces, "turns"), (.keepTurns, "turns"),
            (.waitForever, "places"),
        ])
    func plantedInQueue(bug: PlantedInScheduling, guarantee: String) {
        expect(guarantee, "\(bug.rawValue) in the client's queue") { $0.plantedInScheduling = bug }
    }

    @Test(
        "sees each bug that is planted in the machine of access tokens",
        arguments: [PlantedInTokens.useRefused, .useEnded, .fetchForEach, .forgetPauses])
    func plantedInTokens(bug: PlantedInTokens) {
        expect("tokens", "\(bug.rawValue) of tokens") { $0.plantedInTokens = bug }
    }

    @Test(
        "sees each bug that is planted in the pools of connections to Apple's service",
        arguments: [
            PlantedInScheduling.mixTeams, .openManyStreams, .resendLost, .ignoreGoAway, .connectAtOnce,
            .keepBound,
        ])
    func plantedInPools(bug: PlantedInScheduling) {
        expect("pools", "\(bug.rawValue) in pools") {
            $0.plantedInScheduling = bug
            if bug == .mixTeams { $0.projectCount = 2 }
        }
    }

    @Test(
        "sees each bug that is planted in the machines of tokens",
        arguments: [PlantedInTokens.keepToken, .changeOften])
    func plantedInAppleTokens(bug: PlantedInTokens) {
        expect("tokens", "\(bug.rawValue) of tokens") { $0.plantedInTokens = bug }
    }

    @Test(
        "sees each bug that is planted in the sender of a loop",
        arguments: [
            (PlantedInNode.callFailing, "circuits"), (.forgetRetryAfter, "pauses"), (.crowdOrigins, "places"),
            (.crowdUnproven, "unproven"),
        ])
    func plantedInSender(bug: PlantedInNode, guarantee: String) {
        expect(guarantee, "\(bug.rawValue) in the sender") { $0.planted = bug }
    }

    @Test("sees that answers under former settings count")
    func believedFormer() {
        expect("former", "believeFormer") {
            ($0.addressKindsMax, $0.servicesGapMax) = (3, .seconds(1))
            $0.planted = .believeFormer
        }
    }

    @Test(
        "sees each bug that is planted in the choice of what a partition pushes, and where to",
        arguments: [
            (PlantedBug.forgetGrace, "grace"), (.takeAllSlots, "shares"), (.pushUnserved, "services"),
            (.stayAtFormer, "invariant"), (.pushPastEnd, "G2"),
        ])
    func plantedInPartition(bug: PlantedBug, guarantee: String) {
        expect(guarantee, "\(bug.rawValue) in partitions") {
            ($0.addressKindsMax, $0.servicesGapMax) = (3, .seconds(1))
            $0.partition.planted = bug
        }
    }

    @Test(
        "sees each bug that is planted in the decisions on messages under way",
        arguments: [
            (PlantedInFlight.againAlways, "again"), (.againLate, "again"), (.keepRefused, "tokens"),
            (.keepChanged, "tokens"), (.keepConnection, "pools"), (.unansweredAsUnsent, "outcomes"),
            (.unsentAsUnanswered, "outcomes"), (.forgetOldNews, "outcomes"),
        ])
    func plantedInFlight(bug: PlantedInFlight, guarantee: String) {
        expect(guarantee, "\(bug.rawValue) of messages under way") {
            $0.plantedInFlight = bug
            // The tests see these only where one message meets the same refusal twice.
            if bug == .againAlways {
                ($0.tokensRefusedPerMille, $0.accessTokens.freshFor) = (300, .milliseconds(1))
            }
            if bug == .againLate { $0.tokensRefusedPerMille = 400 }
            if bug == .forgetOldNews { $0.appleOddPerMille = 600 }
        }
    }

    @Test("sees that a loop hides which services refuse a project's key")
    func hiddenRefusals() {
        expect("invariant", "hideRefusedKeys") { $0.planted = .hideRefusedKeys }
    }

    @Test("sees that a key which was refused once counts as refused for ever")
    func keptRefusals() {
        expect("invariant", "keepRefusedKeys") { $0.partition.planted = .keepRefusedKeys }
    }

    @Test("keeps every promise where services say once that all devices are gone", arguments: UInt64(1)...12)
    func denied(seed: UInt64) {
        let simulation = ClusterSimulation(PushSimulationTests.denials(seed))
        let violations = simulation.run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(simulation.counts["devices denied", default: 0] > 0)
    }

    static func denials(_ seed: UInt64) -> ClusterSimulation.Options {
        var options = options(seed)
        (options.deniesDevices, options.pushMoodsPerMille) = (true, 0)
        return options
    }

    @Test("keeps every promise where settings are another account's for a while", arguments: UInt64(1)...12)
    func wrongSettings(seed: UInt64) {
        let simulation = ClusterSimulation(PushSimulationTests.wrongSettings(seed))
        let violations = simulation.run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(simulation.counts["pushes under wrong settings", default: 0] > 0)
    }

    static func wrongSettings(_ seed: UInt64) -> ClusterSimulation.Options {
        var options = options(seed)
        options.settingsGapMax = .milliseconds(500 + seed % 5 * 1000)
        (options.pushMoodsPerMille, options.addressKindsMax) = (seed % 2 * 200, Int(1 + seed % 3))
        return options
    }

    @Test(
        "sees each bug that is planted in the desk where settings change",
        arguments: [
            (PlantedInDesk.believeFormer, "former"), (.raiseLate, "former"), (.keepRoutes, "former"),
            (.keepTokens, "tokens"),
        ])
    func plantedInDesk(bug: PlantedInDesk, guarantee: String) {
        expect(guarantee, "\(bug.rawValue) of the desk") {
            ($0.settingsGapMax, $0.addressKindsMax, $0.plantedInDesk) = (.seconds(1), 3, bug)
        }
    }

    @Test("sees that the sender believes what services say under wrong settings")
    func believedSettings() {
        expect("G1", "believeWords under wrong settings") {
            ($0.settingsGapMax, $0.planted) = (.seconds(2), .believeWords)
            $0.partition.unreachableMax = .seconds(1)
        }
    }

    @Test("sees that the sender believes a service which says that all devices are gone")
    func believedWords() {
        expect("G1", "believeWords") {
            ($0.deniesDevices, $0.planted) = (true, .believeWords)
            $0.partition.unreachableMax = .seconds(1)
        }
    }

    @Test("gives up messages whose answers explain nothing, and no others")
    func unexplained() {
        var givenUp = 0
        for seed in UInt64(1)...8 {
            var options = PushSimulationTests.options(seed)
            (options.pushUnexplainedPerMille, options.pushes.unexplainedMin) = (200, 1)
            options.pushes.webRetryMin = .milliseconds(200)
            options.pushes.fcmRetryMin = .milliseconds(200)
            let simulation = ClusterSimulation(options)
            let violations = simulation.run().violations
            #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
            #expect(simulation.counts["pushes answered with what explains nothing", default: 0] > 0)
            givenUp += simulation.counts["messages given up", default: 0]
        }
        #expect(givenUp > 0)
    }

    @Test("sees that a single answer which explains nothing ends a message")
    func refusedSoon() {
        expect("refusals", "refuseSoon") { ($0.pushUnexplainedPerMille, $0.planted) = (100, .refuseSoon) }
    }

    @Test("sees that a message for a doubted device is tried again before the pause is over")
    func heldNothing() {
        expect("pauses", "holdNothing") {
            $0.partition.planted = .holdNothing
        }
    }
}
