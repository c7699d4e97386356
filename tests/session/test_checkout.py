"""A checkout that pays with four cards: the ownership tree as users meet it."""

import json
from pathlib import Path
from typing import TypeAlias

import msgspec
import trio

from pi_actors import ActorKind, Done, Failed, Next, Outcome, Session, Work, open_session


class Payment(msgspec.Struct, frozen=True):
    card: str
    cents: int


class Cart(msgspec.Struct, frozen=True, tag="cart"):
    cards: tuple[str, ...]
    cents: int


class Paying(msgspec.Struct, frozen=True, tag="paying"):
    cards: tuple[str, ...]


class Refunding(msgspec.Struct, frozen=True, tag="refunding"):
    receipts: tuple[str, ...]


class Bank:
    """Keeps its books in a file; a key that was seen before changes nothing."""

    def __init__(self, path: Path, declined: tuple[str, ...] = (), slow: tuple[str, ...] = ()) -> None:
        self.path = path
        self.declined = declined
        self.slow = slow
        self.asked = trio.Event()

    def books(self) -> list[tuple[str, str]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [tuple(json.loads(line)) for line in lines]

    def _write(self, what: str, key: str) -> None:
        if (what, key) not in self.books():
            with self.path.open("a") as file:
                file.write(json.dumps([what, key]) + "\n")

    async def charge(self, card: str, key: str) -> str | None:
        if card in self.declined:
            return None
        self._write("charge", key)
        if card in self.slow:
            self.asked.set()
            await trio.sleep_forever()
        return key

    async def refund(self, key: str) -> None:
        if ("charge", key) in self.books():
            self._write("refund", key)

    def owed(self) -> list[str]:
        """Charges that were not given back."""
        books = self.books()
        return [key for what, key in books if what == "charge" and ("refund", key) not in books]


Checkout: TypeAlias = Cart | Paying | Refunding


def kinds(bank: Bank) -> list[ActorKind[object]]:
    async def charge(work: Work[Payment]) -> Done | Failed:
        receipt = await bank.charge(work.state.card, work.idempotency_key)
        return Failed("declined") if receipt is None else Done(receipt)

    async def undo_charge(work: Work[Payment]) -> None:
        await bank.refund(work.idempotency_key)

    payment = ActorKind("shop.payment", Payment, step=charge, abort=undo_charge)

    async def checkout(
        work: Work[Checkout],
    ) -> Next[Checkout] | Done | Failed:
        match work.state:
            case Cart(cards=cards, cents=cents):
                payments = [payment.start(Payment(card, cents // len(cards))) for card in cards]
                return Next(Paying(cards), spawn=payments, fail_fast=True)
            case Paying():
                if all(each.status == "completed" for each in work.outcomes):
                    return Done("paid")
                return Next(Refunding(receipts(work.outcomes)))
            case Refunding():
                for receipt in work.state.receipts:
                    await bank.refund(receipt)
                return Failed("a card was declined")

    async def cancel(work: Work[Checkout]) -> None:
        found = work.state.receipts if isinstance(work.state, Refunding) else receipts(work.outcomes)
        for receipt in found:
            await bank.refund(receipt)

    return [payment, ActorKind("shop.checkout", Cart | Paying | Refunding, step=checkout, abort=cancel)]  # type: ignore[list-item, arg-type]


def receipts(outcomes: tuple[Outcome, ...]) -> tuple[str, ...]:
    return tuple(each.result for each in outcomes if each.status == "completed")


async def start(session: Session, bank: Bank) -> int:
    checkout = kinds(bank)[1]
    return await session.root.spawn(checkout, Cart(("a", "b", "c", "d"), 100), name="checkout")


async def test_four_good_cards_pay(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "bank")
    async with open_session("memory:", actors=kinds(bank)) as session:
        outcome = await session.wait_actor(await start(session, bank))
        assert (outcome.status, outcome.result, len(bank.owed())) == ("completed", "paid", 4)
        await session.wait_idle()
        assert [node.kind for node in session.tree()] == ["pi.agent"]


async def test_one_declined_card_gives_everything_back(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "bank", declined=("d",), slow=("c",))
    async with open_session("memory:", actors=kinds(bank)) as session:
        outcome = await session.wait_actor(await start(session, bank))
        assert (outcome.status, outcome.detail) == ("failed", "a card was declined")
        assert bank.owed() == []


async def test_a_cancelled_checkout_gives_everything_back(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "bank", slow=("c",))
    async with open_session("memory:", actors=kinds(bank)) as session:
        checkout = await start(session, bank)
        await bank.asked.wait()
        await session.live.waits.until(lambda state: state.actors[checkout].busy_below == 1)
        assert await session.abort_actor(checkout) == "marked"
        assert (await session.wait_actor(checkout)).status == "aborted"
        assert bank.owed() == []
        assert await session.abort_actor(checkout) == "terminal"


async def test_a_checkout_that_is_cancelled_while_it_refunds_gives_everything_back(tmp_path: Path) -> None:
    bank = SlowToRefund(tmp_path / "bank", declined=("d",))
    async with open_session("memory:", actors=kinds(bank)) as session:
        checkout = await start(session, bank)
        await bank.asked.wait()
        await session.abort_actor(checkout)
        assert (await session.wait_actor(checkout)).status == "aborted"
        assert bank.owed() == []


class SlowToRefund(Bank):
    """A bank whose first refund never comes back."""

    async def refund(self, key: str) -> None:
        if not self.asked.is_set() and ("charge", key) in self.books():
            self.asked.set()
            await trio.sleep_forever()
        await super().refund(key)


async def test_a_missing_kind_leaves_its_actors_blocked_and_visible(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "bank", slow=("c",))
    path = tmp_path / "work.db"
    async with open_session(path, actors=kinds(bank)) as session:
        checkout = await start(session, bank)
        await bank.asked.wait()
    async with open_session(path) as session:
        (_, *work) = session.tree()
        assert {node.kind for node in work} == {"shop.checkout", "shop.payment"}
        assert "no kind 'shop.payment'" in str(work[-1].blocked)
        session.register(actors=kinds(Bank(tmp_path / "bank")))
        assert (await session.wait_actor(checkout)).status == "completed"
        assert len(bank.owed()) == 4


async def test_an_aborted_actor_without_its_code_is_orphaned(tmp_path: Path) -> None:
    """K206."""
    bank = Bank(tmp_path / "bank", slow=("c",))
    path = tmp_path / "work.db"
    async with open_session(path, actors=kinds(bank)) as session:
        checkout = await start(session, bank)
        await bank.asked.wait()
    async with open_session(path) as session:
        await session.root.abort()
        assert (await session.wait_actor(checkout)).status == "orphaned"


async def test_a_restart_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "bank", slow=("c",))
    path = tmp_path / "work.db"
    async with open_session(path, actors=kinds(bank)) as session:
        checkout = await start(session, bank)
        await bank.asked.wait()
    again = Bank(tmp_path / "bank")
    async with open_session(path, actors=kinds(again)) as session:
        assert await start(session, again) == checkout
        assert (await session.wait_actor(checkout)).status == "completed"
        assert len(again.owed()) == 4
