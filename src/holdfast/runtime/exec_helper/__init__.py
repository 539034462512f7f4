"""The helper process of one exec session: `from exec_helper.main import main; main()`."""
