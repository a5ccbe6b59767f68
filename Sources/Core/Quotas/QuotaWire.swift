import Bytes
import Model

// The wire form of the messages between spenders and grantors.

extension QuotaRequest {
    public func encode(into out: inout ByteWriter) {
        out.u64(spender.rawValue)
        out.u32(project.rawValue)
        out.u8(kind.rawValue)
        out.u8(isRelease ? 1 : 0)
        for value in [
            number, grantorEpoch.rawValue, applied, floor, spent, shareSpent,
            shareOffset.nanoseconds, held, demand, needed, demandPerSecond,
        ] { out.varint(value) }
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
        let spender = SpenderID(try reader.u64())
        let (project, kind, isRelease) = try reader.quotaHead()
        self.init(
            spender: spender, project: project, kind: kind, number: try reader.varint(),
            grantorEpoch: Epoch(try reader.varint()), applied: try reader.varint(),
            floor: try reader.varint(),
            spent: try reader.varint(), shareSpent: try reader.varint(),
            shareOffset: .nanoseconds(try reader.varint()),
            held: try reader.varint(), demand: try reader.varint(), needed: try reader.varint(),
            demandPerSecond: try reader.varint(), isRelease: isRelease)
    }
}

extension QuotaGrant {
    public func encode(into out: inout ByteWriter) {
        out.u64(spender.rawValue)
        out.u32(project.rawValue)
        out.u8(kind.rawValue)
        out.u8(0)
        for value in [
            number, grantorEpoch.rawValue, tokens, leaseLength.nanoseconds, shareRate,
            shareLength.nanoseconds, retryAfter.nanoseconds, rate.count, UInt64(rate.seconds), rate.burst,
        ] { out.varint(value) }
    }

    public init(from reader: inout ByteReader) throws(DecodeError) {
        let spender = SpenderID(try reader.u64())
        let (project, kind, _) = try reader.quotaHead()
        self.init(
            spender: spender, project: project, kind: kind, number: try reader.varint(),
            grantorEpoch: Epoch(try reader.varint()), tokens: try reader.varint(),
            leaseLength: .nanoseconds(try reader.varint()), shareRate: try reader.varint(),
            shareLength: .nanoseconds(try reader.varint()), retryAfter: .nanoseconds(try reader.varint()),
            rate: QuotaRate(
                count: try reader.varint(), perSeconds: UInt32(clamping: try reader.varint()),
                burst: try reader.varint()))
    }
}

extension ByteReader {
    fileprivate mutating func quotaHead() throws(DecodeError) -> (ProjectNumber, QuotaKind, Bool) {
        let project = try u32()
        guard project < ProjectNumber.limit, let kind = QuotaKind(rawValue: try u8()) else {
            throw fail("a quota of nobody")
        }
        return (ProjectNumber(project), kind, try u8() == 1)
    }
}
