import Model
import Testing

@testable import Partitions

@Suite("The table of streams") struct StreamTableTests {
    private let gone = GatewayID(1)
    private let here = GatewayID(2)

    private func table(_ listeners: [(UInt32, GatewayID)]) -> StreamTable {
        var table = StreamTable()
        for (index, gateway) in listeners {
            table.attach(index, StreamID(gateway: gateway, number: 7), after: .zero)
            table.setLive(index)
        }
        return table
    }

    /// A dead gateway confirms nothing any more, and devices at other gateways do not wait for it.
    @Test("lets no gateway that is gone hold up devices elsewhere")
    func goneGateway() {
        var table = table([(1, gone), (2, here)])
        for gateway in [gone, here] { _ = table.number(gateway, Position(100)) }
        _ = table.processed(here, 1)
        #expect(table.handedOver(1) == .zero, "the frame to the dead one is outstanding")
        #expect(table.handedOver(2) == Position(100))
        #expect(table.isHeldUp(1, before: Position(101)) && !table.isHeldUp(1, before: Position(100)))
        #expect(!table.isHeldUp(2, before: Position(101)))
        table.forget { $0 == gone }
        #expect(table.attachment(1) == nil && table.links[gone] == nil)
        #expect(table.isLive(2) && table.count == 1)
    }

    /// Events that a device read from the log are under way when its stream becomes live: only the
    /// confirmation of the next frame covers them.
    @Test("confirms what a device read from the log with a frame behind it")
    func readEvents() {
        var table = table([(1, here)])
        _ = table.number(here, Position(100))
        _ = table.processed(here, 1)
        table.attach(2, StreamID(gateway: here, number: 8), after: .zero)
        table.setLive(2)
        #expect(table.handedOver(1) == Position(100) && table.handedOver(2) == .zero)
        _ = table.number(here, Position(200))
        _ = table.processed(here, 2)
        #expect(table.handedOver(1) == Position(200) && table.handedOver(2) == Position(200))
    }

    /// A link whose whole window was lost goes on, and lost frames do not count as handed over.
    @Test("confirms nothing for lost frames until the next frame is processed")
    func lostFrames() {
        var table = table([(1, here)])
        for position in UInt64(1)...5 { _ = table.number(here, Position(position)) }
        table.forgetOutstanding(here)
        #expect(table.links[here]?.outstanding.count == 1)
        #expect(table.handedOver(1) == .zero)
        let next = table.number(here, Position(6))
        _ = table.processed(here, next)
        #expect(table.handedOver(1) == Position(6))
    }

    /// A frame that was lost with its link is not awaited, though it stays outstanding.
    @Test("awaits no frame that may be lost")
    func whatMayBeLostIsNotAwaited() {
        var table = table([(1, here)])
        #expect(table.links[here]?.isAwaited == false)
        _ = table.number(here, Position(100))
        #expect(table.links[here]?.isAwaited == true)
        table.forgetOutstanding(here)
        #expect(table.links[here]?.isAwaited == false && table.isFull(here, 1))
        _ = table.number(here, Position(100))
        #expect(table.links[here]?.isAwaited == true)
        #expect(table.processed(here, 2) && table.links[here]?.isAwaited == false)
    }
}
