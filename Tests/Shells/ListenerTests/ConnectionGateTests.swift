import HTTPMessages
import Model
import Testing

@testable import Listener

private let alice = ClientAddress(bytes: [192, 0, 2, 1])
private let bob = ClientAddress(bytes: [192, 0, 2, 2])
private let own = ClientAddress(bytes: [127, 0, 0, 1])

private func at(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(.seconds(seconds)) }

@Suite("The gate before listeners")
struct ConnectionGateTests {
    @Test("pauses listeners while all places are taken, and goes on when one is free")
    func places() {
        var gate = ConnectionGate(.init(connectionsMax: 2))
        #expect(gate.admit(alice, now: at(0)) == .admitted)
        #expect(gate.isOpen)
        #expect(gate.admit(bob, now: at(0)) == .admitted)
        #expect(!gate.isOpen)
        // Another listener was accepting meanwhile.
        #expect(gate.admit(bob, now: at(0)) == .full)
        #expect(gate.open == 2)
        gate.closed(alice)
        #expect(gate.isOpen)
        #expect(gate.admit(nil, now: at(0)) == .admitted)
        #expect(!gate.isOpen)
    }

    @Test("lets listeners accept several at once while that cannot pass the last place")
    func several() {
        var gate = ConnectionGate(.init(connectionsMax: 70))
        #expect(gate.accepted(by: 2) == ConnectionGate.acceptedAtOnce)
        #expect(gate.accepted(by: 3) == 1)
        for _ in 0..<6 { #expect(gate.admit(alice, now: at(0)) == .admitted) }
        #expect(gate.accepted(by: 2) == ConnectionGate.acceptedAtOnce)
        #expect(gate.admit(alice, now: at(0)) == .admitted)
        #expect(gate.accepted(by: 2) == 1)
        gate.closed(alice)
        #expect(gate.accepted(by: 2) == ConnectionGate.acceptedAtOnce)
    }

    @Test("takes no more connections of one address than its bound, and forgets who has none")
    func addresses() {
        var gate = ConnectionGate(.init(connectionsMax: 10, perAddressMax: 2))
        #expect(gate.admit(alice, now: at(0)) == .admitted)
        #expect(gate.admit(alice, now: at(0)) == .admitted)
        #expect(gate.admit(alice, now: at(0)) == .tooManyOfAddress)
        #expect(gate.admit(bob, now: at(0)) == .admitted)
        #expect(gate.open == 3)
        gate.closed(alice)
        #expect(gate.admit(alice, now: at(0)) == .admitted)
        for client in [alice, alice, bob] { gate.closed(client) }
        #expect(gate.open == 0)
        #expect(gate.byAddress.count == 0)
    }

    @Test("takes so many new connections of one address a second, and ten seconds' worth at once")
    func rate() {
        var gate = ConnectionGate(.init(perAddressSecond: 2))
        for _ in 0..<20 {
            #expect(gate.admit(alice, now: at(0)) == .admitted)
            gate.closed(alice)
        }
        #expect(gate.admit(alice, now: at(0)) == .tooFast)
        #expect(gate.admit(bob, now: at(0)) == .admitted)
        #expect(gate.open == 1)
        for _ in 0..<2 { #expect(gate.admit(alice, now: at(1)) == .admitted) }
        #expect(gate.admit(alice, now: at(1)) == .tooFast)
        // Connections without an end are no way round the bound of open ones.
        #expect(gate.byAddress.count == 0)
    }

    @Test("does not count how fast proxies connect, nor this machine unless it is told to")
    func unboundRate() throws {
        let proxy = AddressRange(try #require(alice), bits: 32)
        for countsLoopback in [false, true] {
            var gate = ConnectionGate(
                .init(perAddressSecond: 1, countsLoopback: countsLoopback, exempt: [proxy]))
            for _ in 0..<30 { #expect(gate.admit(alice, now: at(0)) == .admitted) }
            let verdicts = (0..<11).map { _ in gate.admit(own, now: at(0)) }
            #expect(verdicts.last == (countsLoopback ? .tooFast : .admitted))
        }
    }

    @Test("counts this machine's own addresses only where it is told to", arguments: [false, true])
    func loopback(isCounted: Bool) {
        var gate = ConnectionGate(
            .init(connectionsMax: 10, perAddressMax: 1, countsLoopback: isCounted))
        #expect(gate.admit(own, now: at(0)) == .admitted)
        #expect(gate.admit(own, now: at(0)) == (isCounted ? .tooManyOfAddress : .admitted))
        #expect(gate.admit(nil, now: at(0)) == .admitted)
        #expect(gate.admit(nil, now: at(0)) == .admitted)
    }

    @Test("pauses for a second when a connection could not be accepted")
    func failure() {
        var gate = ConnectionGate(.init())
        let until = gate.failed(now: at(5))
        #expect(until == at(6))
        #expect(!gate.isOpen)
        gate.look(now: MonotonicTime(nanoseconds: until.nanoseconds - 1))
        #expect(!gate.isOpen)
        gate.look(now: until)
        #expect(gate.isOpen)
    }

    @Test("goes on at once when a descriptor is free, and the former look changes nothing")
    func failureThenClosed() {
        var gate = ConnectionGate(.init())
        #expect(gate.admit(alice, now: at(0)) == .admitted)
        _ = gate.failed(now: at(5))
        gate.closed(alice)
        #expect(gate.isOpen)
        _ = gate.failed(now: at(8))
        gate.look(now: at(6))
        #expect(!gate.isOpen)
    }
}

@Suite("An address as bounds see it")
struct ClientAddressTests {
    @Test("is the /64 of an IPv6 address, and an IPv4 address in either form")
    func keys() throws {
        let prefix: [UInt8] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1]
        let first = try #require(ClientAddress(bytes: prefix + [0, 0, 0, 0, 0, 0, 0, 1]))
        let second = try #require(ClientAddress(bytes: prefix + [9, 9, 9, 9, 9, 9, 9, 9]))
        let other = try #require(ClientAddress(bytes: prefix.dropLast() + [2, 0, 0, 0, 0, 0, 0, 0, 1]))
        #expect(first == second)
        #expect(first != other)
        let mapped = ClientAddress(bytes: [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF, 192, 0, 2, 1])
        #expect(mapped == alice)
        #expect(alice != bob)
        #expect(ClientAddress(bytes: [1, 2, 3]) == nil)
    }

    @Test("knows this machine's own")
    func loopback() throws {
        #expect(own?.isLoopback == true)
        #expect(ClientAddress(bytes: [127, 9, 9, 9])?.isLoopback == true)
        #expect(ClientAddress(bytes: [UInt8](repeating: 0, count: 15) + [1])?.isLoopback == true)
        #expect(ClientAddress(bytes: [UInt8](repeating: 0, count: 16))?.isLoopback == false)
        #expect(alice?.isLoopback == false)
    }
}

@Suite("The plan of a process's descriptors")
struct DescriptorPlanTests {
    @Test("keeps some back for everything that is no client", arguments: [64, 128, 1024, 20_000, 1 << 20])
    func kept(limit: Int) {
        for isClustered in [false, true] {
            for loops in [1, 2, 64] {
                let plan = DescriptorPlan(limit: limit, loops: loops, isClustered: isClustered)
                #expect(plan.clients >= limit / 4)
                #expect(plan.clients < limit)
                let others = DescriptorPlan.files + DescriptorPlan.ofLoop * loops + 2 * plan.peers
                let all = plan.clients + others + plan.operators + plan.scrapers + plan.pushes
                #expect(plan.clients == limit / 4 || all <= limit)
                #expect(plan.pushes >= 16)
                #expect((plan.peers > 0) == isClustered)
            }
        }
    }

    @Test("bounds how fast one address connects, unless a balancer makes all connections")
    func fast() {
        let plan = DescriptorPlan(limit: 1024, loops: 2, isClustered: false)
        #expect(plan.bounds(perAddress: nil).perAddressSecond == 500)
        #expect(!plan.bounds(perAddress: nil).countsLoopback)
        #expect(plan.bounds(perAddress: 0).perAddressSecond == nil)
        #expect(plan.bounds(perAddress: nil, perSecond: 0).perAddressSecond == nil)
        #expect(plan.bounds(perAddress: 0, perSecond: 7).perAddressSecond == 7)
        #expect(plan.bounds(perAddress: nil, perSecond: 7).countsLoopback)
    }

    @Test("takes what was asked for as far as the descriptors go")
    func asked() {
        let few = DescriptorPlan(limit: 1024, loops: 2, isClustered: false, asked: 100)
        #expect(few.clients == 100)
        #expect(!few.isCut)
        let many = DescriptorPlan(limit: 1024, loops: 2, isClustered: false, asked: 5000)
        #expect(many.clients < 1024)
        #expect(many.isCut)
        #expect(!DescriptorPlan(limit: 1024, loops: 2, isClustered: false).isCut)
    }

    @Test("gives an address a quarter, of other machines only, or what was said, of all")
    func perAddress() {
        let plan = DescriptorPlan(limit: 1024, loops: 2, isClustered: false, asked: 100)
        #expect(
            plan.bounds(perAddress: nil)
                == .init(connectionsMax: 100, perAddressMax: 25, perAddressSecond: 500))
        #expect(plan.bounds(perAddress: 0).perAddressMax == nil)
        let said = plan.bounds(perAddress: 7)
        #expect(
            said == .init(connectionsMax: 100, perAddressMax: 7, perAddressSecond: 500, countsLoopback: true))
    }
}
