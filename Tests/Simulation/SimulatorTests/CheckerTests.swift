import Model
import Testing

@testable import Simulator

/// Each checker must see its violation in a history, and nothing in a history that is well.
@Suite("The checkers of a history")
struct CheckerTests {
    private func moment(_ nanoseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: nanoseconds) }

    /// Device 0 is subscribed to topic 0, and a message comes to it.
    private func well() -> Simulator.History {
        var history = Simulator.History()
        history.changes = [
            .init(device: 0, topic: 0, subscribe: true, began: moment(10), outcome: .ok(at: moment(20)))
        ]
        history.sends = [
            .init(
                message: 1, target: .topic(0), key: "", expires: nil, began: moment(30),
                outcome: .ok(at: moment(40)),
                bytes: 10)
        ]
        history.deliveries = [
            .init(device: 0, message: 1, position: 100, at: moment(50), streamBegan: moment(5))
        ]
        history.final = [0: [0]]
        return history
    }

    private func found(_ history: Simulator.History, _ rules: Checkers.Rules = .init()) -> [String] {
        Checkers(history, rules: rules).all().map(\.guarantee)
    }

    @Test("see nothing where all is well")
    func nothingWhereAllIsWell() { #expect(found(well()).isEmpty) }

    @Test("see a message that never came")
    func aMessageThatNeverCame() {
        var history = well()
        history.deliveries = []
        #expect(found(history) == ["G2"])
    }

    @Test("see a message that was refused and came")
    func refusedAndCame() {
        var history = well()
        history.sends[0].outcome = .refused(at: moment(40))
        #expect(found(history) == ["G8"])
    }

    @Test("see a message on a stream that began after its device had ended")
    func afterDevice() {
        var history = well()
        history.gone[0] = .init(began: moment(1), ended: moment(4))
        #expect(found(history) == ["G3"])
        history.gone[0] = .init(began: moment(1), ended: moment(5))
        #expect(found(history).isEmpty, "its stream was open before")
    }

    @Test("see a notice of loss that nothing explains")
    func aLossThatNothingExplains() {
        var history = well()
        history.tellings = [.init(device: 0, at: moment(60))]
        #expect(found(history) == ["G2"])
        var rules = Checkers.Rules()
        rules.waitingMax = 1
        #expect(found(history, rules).isEmpty, "as many as may wait can have waited")
        rules = Checkers.Rules()
        rules.waitingBytesMax = 9
        #expect(found(history, rules).isEmpty, "its project had more bytes waiting than it may")
    }

    @Test("see messages out of order")
    func messagesOutOfOrder() {
        var history = well()
        history.sends.append(
            .init(
                message: 2, target: .topic(0), key: "", expires: nil, began: moment(41),
                outcome: .ok(at: moment(45))))
        history.deliveries.insert(
            .init(device: 0, message: 2, position: 99, at: moment(48), streamBegan: moment(5)), at: 0)
        #expect(found(history) == ["G4"])
        // Another rule looks at messages that come when their time is over.
        history.sends[0].expires = moment(49)
        #expect(found(history).isEmpty)
    }

    @Test("see a message after its time")
    func aMessageAfterItsTime() {
        var history = well()
        history.sends[0].expires = moment(45)
        var rules = Checkers.Rules()
        rules.underWay = .nanoseconds(4)
        #expect(found(history, rules) == ["G2"])
    }
}
