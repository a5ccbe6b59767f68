import Model
import Partitions
import Testing

@testable import NodeCore

/// A service's word that it does not know an address ends the address only where it is believed.
@Suite("The word of a push service") struct PushDoubtTests {
    typealias World = PushSenderTests.World

    private func isDoubted(_ result: PushReport.Result?) -> Bool {
        if case .doubted = result { true } else { false }
    }

    /// The operator gives the account of another Firebase project: the service disowns each phone.
    @Test("ends nobody under settings with which nothing was taken", arguments: [false, true])
    func wrongSetting(isPlanted: Bool) {
        let world = World { $0.atOnce = 64 }
        if isPlanted { world.sender.planted = .believeEachWord }
        let jobs = (0..<20).map { _ in world.submit(kind: .fcm) }
        while !world.sent.isEmpty { world.answer(.gone) }
        #expect(jobs.allSatisfy { isPlanted ? world.reports[$0] == .gone : isDoubted(world.reports[$0]) })
        // The operator hears that the setting is refused, and each further phone waits.
        #expect(world.refusals.contains { $0.until != nil } == !isPlanted)
        guard !isPlanted else { return }
        let next = world.submit(kind: .fcm)
        guard case .closed = world.reports[next] else {
            Issue.record("the service is left alone")
            return
        }
        world.sender.reopen([ProjectNumber(1)])
        let good = world.submit(kind: .fcm)
        world.answer(.accepted)
        #expect(world.reports[good] == .done)
    }

    /// A reverse proxy answers 404 while the push server behind it restarts.
    @Test("ends one device at most for each message that the service takes")
    func front() {
        let world = World { $0.atOnce = 64 }
        world.submit()
        world.answer(.accepted)
        let jobs = (0..<20).map { _ in world.submit() }
        for _ in jobs { world.answer(.gone) }
        #expect(jobs.filter { world.reports[$0] == .gone }.count == world.sender.bounds.goneInRowMax)
        #expect(jobs.filter { isDoubted(world.reports[$0]) }.count == 20 - world.sender.bounds.goneInRowMax)
        world.pass(seconds: 100)
        let good = world.submit()
        world.answer(.accepted)
        let gone = world.submit()
        world.answer(.gone)
        #expect(world.reports[good] == .done && world.reports[gone] == .gone)
        world.pass(seconds: UInt64(world.sender.bounds.believedFor.seconds) + 1)
        let late = world.submit()
        world.answer(.gone)
        #expect(isDoubted(world.reports[late]), "nothing was taken lately")
    }
}
