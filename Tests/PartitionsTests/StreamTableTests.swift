import Model
import Testing

@testable import Partitions

@Suite struct StreamTableTests {
    private let gone = GatewayID(1)
    private let here = GatewayID(2)

    /// A gateway that died confirms nothing any more: what listens at others must not wait for it.
    @Test func aGatewayThatIsGoneHoldsNobodyUp() {
        var table = StreamTable()
        for (index, gateway) in [(UInt32(1), gone), (2, here)] {
            table.attach(index, StreamID(gateway: gateway, number: 7), after: .zero)
            table.setLive(index)
            _ = table.number(gateway, Position(100))
        }
        _ = table.processed(here, 1)
        #expect(table.processedByAll == .zero, "the frame to the dead one is outstanding")
        table.forget { $0 == gone }
        #expect(table.processedByAll == Position(.max))
        #expect(table.attachment(1) == nil && table.links[gone] == nil)
        #expect(table.isLive(2) && table.count == 1)
    }

    /// A link whose whole window was lost goes on, and what was lost does not count as handed over.
    @Test func whatWasLostIsConfirmedWithWhatComesNext() {
        var table = StreamTable()
        table.attach(1, StreamID(gateway: here, number: 7), after: .zero)
        table.setLive(1)
        for position in UInt64(1)...5 { _ = table.number(here, Position(position)) }
        table.forgetOutstanding(here)
        #expect(table.links[here]?.outstanding.count == 1)
        #expect(table.processedByAll == .zero)
        let next = table.number(here, Position(6))
        _ = table.processed(here, next)
        #expect(table.processedByAll == Position(.max))
    }
}
