import Model
import RegistrationIDs
import Testing

@Suite("Sealed addresses of channels")
struct ChannelAddressTests {
    private let old = RegistrationKey(number: 1, material: Array(1...32))
    private let new = RegistrationKey(number: 2, material: Array(33...64))
    private let channel = ChannelID(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210)
    private let device = Registration(
        project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)
    private var plain: ChannelAddress { ChannelAddress(device: device, channel: channel) }
    private var bound: ChannelAddress {
        ChannelAddress(device: device, channel: channel, senderKeyHash: Array(0..<32))
    }

    @Test("are read as they were sealed, with a sender's key and without")
    func roundTrip() throws {
        let keys = RegistrationKeys([old])
        for address in [plain, bound] {
            let text = keys.seal(address)
            #expect(text.count <= RegistrationKeys.addressLengthMax)
            #expect(text.allSatisfy { Base64URL.value($0) != 0xFF })
            #expect(try keys.openAddress(text).get() == address)
            #expect(keys.seal(address) == text)
        }
    }

    @Test("are worth nothing where any character is another one, or is missing")
    func changed() {
        let keys = RegistrationKeys([old, new])
        for text in [keys.seal(plain), keys.seal(bound)] {
            for place in text.indices {
                var changed = text
                changed[place] = text[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
                #expect(throws: RegistrationError.self) { try keys.openAddress(changed).get() }
                #expect(throws: RegistrationError.self) { try keys.openAddress(text[..<place]).get() }
            }
            #expect(throws: RegistrationError.self) { try keys.openAddress(text + text).get() }
        }
    }

    @Test("of two channels of a device have nothing in common but the number of their key")
    func unlinkable() {
        let keys = RegistrationKeys([old])
        let other = ChannelAddress(device: device, channel: ChannelID(high: channel.high, low: 0))
        let pairs = zip(keys.seal(plain), keys.seal(other)).dropFirst(2)
        #expect(pairs.count { $0 == $1 } < 12)
    }

    @Test("outlive another key, and end with their own")
    func keys() throws {
        let text = RegistrationKeys([old]).seal(plain)
        #expect(try RegistrationKeys([old, new]).openAddress(text).get() == plain)
        #expect(RegistrationKeys([new]).openAddress(text) == .failure(.unknownKey))
        var retired = old
        retired.isRetired = true
        #expect(RegistrationKeys([retired, new]).openAddress(text) == .failure(.retiredKey))
    }

    @Test("name channels by UUIDs of either case, and by nothing else")
    func channels() {
        let text = "01234567-89ab-cdef-fedc-ba9876543210"
        #expect(ChannelID(text.utf8) == channel)
        #expect(ChannelID(text.uppercased().utf8) == channel)
        #expect(channel.text == Array(text.utf8))
        for bad in [
            "", "0123456789abcdeffedcba9876543210", text + "0", String(text.dropLast()),
            "0123456-789ab-cdef-fedc-ba9876543210", "01234567-89ab-cdef-fedc-ba987654321g",
            "{1234567-89ab-cdef-fedc-ba987654321}",
        ] { #expect(ChannelID(bad.utf8) == nil, "\(bad)") }
    }
}
