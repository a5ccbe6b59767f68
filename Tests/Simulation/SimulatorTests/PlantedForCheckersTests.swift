import Model
import Partitions
import Testing

@testable import Simulator

/// Planted bugs for checkers that no other test shows failing.
@Suite("A checker of a cluster sees")
struct PlantedForCheckersTests {
    /// Expects that some seed's run breaks the guarantee with these words.
    private func expect(
        _ bug: PlantedBug, _ guarantee: String, _ words: String, seeds: ClosedRange<UInt64>,
        _ change: (inout ClusterSimulation.Options) -> Void
    ) {
        expect(guarantee, words, seeds: seeds) {
            $0.partition.planted = bug
            change(&$0)
        }
    }

    private func expect(
        _ guarantee: String, _ words: String, seeds: ClosedRange<UInt64>,
        _ change: (inout ClusterSimulation.Options) -> Void
    ) {
        for seed in seeds {
            var options = ClusterSimulation.Options(seed: seed)
            options.poisons = false
            change(&options)
            let violations = ClusterSimulation(options).run().violations
            if violations.contains(where: { $0.guarantee == guarantee && $0.description.contains(words) }) {
                return
            }
        }
        Issue.record("no seed of \(seeds) shows that \(words)")
    }

    /// Nothing fails, and still the fate of some sends is unknown.
    @Test("sends in doubt for no reason")
    func sendsInDoubtForNoReason() {
        expect(.forgetAnswers, "504", "is in doubt", seeds: 1...5) {
            $0.hasFaults = false
            ($0.seconds, $0.pauseMax) = (60, .milliseconds(200))
            ($0.burstPerMille, $0.burstMax) = (20, 20)
        }
    }

    @Test("notices of loss for no reason")
    func noticesOfLossForNoReason() {
        expect(.tellLossOfNothing, "G2", "was told that messages were dropped", seeds: 1...5) { _ in }
    }

    @Test("bodies that a replay does not find")
    func lostBodies() {
        expect(.forgetBodies, "G2", "bodies wait in records that are gone", seeds: 1...100) {
            $0.partition.snapshotBytesMin = 200
        }
    }

    @Test("streams of which one side alone knows")
    func oneSided() {
        expect(.keepReplaced, "streams", "is live at its gateway alone", seeds: 1...40) { _ in }
    }

    @Test("records past their bound")
    func recordsPastTheirBound() {
        expect(.growRecords, "bounds", "makes a record of", seeds: 1...10) {
            $0.partition.recordBytesMax = 500
            $0.bodyBytesMax = 4000
            ($0.burstPerMille, $0.burstMax, $0.pauseMax) = (30, 300, .milliseconds(100))
            $0.seconds = 5
        }
    }

    @Test("datagrams that are believed twice")
    func believedTwice() {
        expect("gossip", "believed a datagram twice", seeds: 1...2) {
            $0.membership.plantedAcceptReplays = true
            ($0.nodeCount, $0.seconds, $0.hasFaults, $0.replayedPerMille) = (3, 3, false, 300)
        }
    }

    @Test("owners that do not stand still")
    func ownersThatDoNotStandStill() {
        expect("G7", ", and then partition", seeds: 1...5) {
            $0.planted = .restless
            ($0.nodeCount, $0.seconds, $0.hasFaults) = (3, 5, false)
        }
    }

    @Test("more messages waiting for a loop than may wait")
    func overfullLoop() {
        expect("bounds", "messages that may be left out wait for it", seeds: 1...10) {
            $0.planted = .ignorePressure
            ($0.nodeCount, $0.loopCount, $0.inbox.entries) = (1, 4, 2)
            ($0.seconds, $0.hasFaults) = (3, false)
            ($0.burstPerMille, $0.burstMax, $0.pauseMax) = (40, 100, .milliseconds(50))
        }
    }

    /// Nothing fails, so each message waits where it came first, and no clock but that owner's counts. The
    /// wall clocks of nodes differ by longer than a day, which is how long the messages live.
    private func setClocksApart(_ options: inout ClusterSimulation.Options) {
        options.hasFaults = false
        (options.seconds, options.clocksApart) = (10, .seconds(4 * 86_400))
    }

    @Test("a condition that is answered before partitions had time to decide")
    func impatient() {
        expect(.impatient, "G2", "before the devices had decided", seeds: 1...40) { _ in }
    }

    @Test("times of one clock that another clock counts")
    func believedTimes() {
        expect(.believeTimes, "G2", "never reached", seeds: 1...10, setClocksApart)
    }

    @Test("nothing where each clock counts its own times", arguments: UInt64(1)...10)
    func ownTimes(seed: UInt64) {
        var options = ClusterSimulation.Options(seed: seed)
        setClocksApart(&options)
        let (history, violations) = ClusterSimulation(options).run()
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(!history.deliveries.isEmpty)
    }
}
